"""Many kinds of ONNX files through the command line: what is written computes what the file did, and nothing ends in an
internal error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from effsparse_cli.cli import run
from effsparse_cli.folding.verify import compare
from effsparse_cli.formats.onnx.ops.quantized.qonnx import QUANTIZERS, quantize
from tests.folding import onnx_zoo
from tests.folding.onnx_zoo import MODELS, linear, model, node, value, weights

NOT_READ = {"opset 999"}
NOT_RUN = {*NOT_READ, "ir version 99"}
"""onnxruntime refuses them, so nothing can be verified: exit 3, and nothing is written."""
NOT_COMPACTED = {*NOT_RUN, "bfloat16", "double Tan", "beside an unknown operator"}
"""Types without onnxruntime kernels, and an unknown operator with a result of unknown shape."""
NOTHING_LEFT = {"integers"}
"""Rounded to integers, no path remains."""
NO_VALUES = {("unknown operator that nothing reads", "repair"), ("qonnx BipolarQuant", "prune")}
"""Values to restore are zero in the file, or no number stands for zero."""


class Twist(OpRun):
    op_domain = "my.ops"

    def _run(self, x: Any, w: Any = None) -> tuple[Any]:
        return (np.cos(x[:, ::-1]) if w is None else np.cos(x @ w),)


class Quantize(OpRun):
    op_domain = "my.ops"

    def _run(self, x: Any) -> tuple[Any]:
        return (np.round(4 * x + 0.5).astype(x.dtype) / 4,)


class _Quantizer(OpRun):
    op_domain = onnx_zoo.QONNX

    def _run(self, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        return tuple(quantize(self.onnx_node, inputs))


OWN = [Twist, Quantize, *(type(name, (_Quantizer,), {}) for name in QUANTIZERS)]


def computed(found: ModelProto, seed: int) -> list[Any]:
    """Run in onnxruntime, or in onnx's reference implementation, which can be extended with operators."""
    dice = np.random.default_rng(seed)
    stored = {tensor.name for tensor in found.graph.initializer}
    feeds: dict[str, NDArray[Any]] = {}
    for each in found.graph.input:
        if each.name not in stored:
            kind = each.type.tensor_type
            shape = [dim.dim_value or 2 for dim in kind.shape.dim]
            feeds[each.name] = (3 * dice.standard_normal(shape)).astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(found.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception as error:
        if not any(known in str(error) for known in ("NOT_IMPLEMENTED", "my.ops", "qonnx")):
            raise
        return list(ReferenceEvaluator(found, new_ops=OWN).run(None, feeds))


def assert_same(source: Path, target: Path, narrow: bool = False) -> None:
    old, new = onnx.load(source), onnx.load(target)
    epsilon = 2.0**-7 if narrow else 2.0**-20
    compare([computed(old, seed) for seed in (1, 2)], [computed(new, seed) for seed in (1, 2)], epsilon)


@pytest.fixture
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(MODELS[request.param]().SerializeToString())
    return path


KINDS = [pytest.param(name, name, id=name.replace(" ", "-")) for name in MODELS]


@pytest.mark.parametrize(("file", "name"), KINDS, indirect=["file"])
def test_repair(file: Path, name: str) -> None:
    target = file.with_name("out.onnx")
    assert run(["repair", str(file), "-o", str(target)]) == (3 if name in NOT_RUN else 0)
    assert target.exists() != (name in NOT_RUN)
    if target.exists():
        assert_same(file, target, "float16" in name or "half" in name)


@pytest.mark.parametrize(("file", "name"), KINDS, indirect=["file"])
def test_compact(file: Path, name: str) -> None:
    target = file.with_name("out.onnx")
    assert run(["compact", str(file), "-o", str(target)]) == (3 if name in NOT_COMPACTED else 0)
    assert target.exists() != (name in NOT_COMPACTED)
    if target.exists():
        assert_same(file, target, "float16" in name or "half" in name)


@pytest.mark.parametrize(("file", "name"), KINDS, indirect=["file"])
def test_prune_and_mend(file: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    target = file.with_name("out.onnx")
    for command in (["prune", "--target", "0.5", "--closest"], ["repair", "--target", "0.6", "--closest"]):
        target.unlink(missing_ok=True)
        code = run([*command[:1], str(file), *command[1:], "-o", str(target)])
        refused = name in NOTHING_LEFT or (name, command[0]) in NO_VALUES
        other = name in NOT_READ or (name, command[0]) == ("qonnx BipolarQuant", "repair")
        assert code == (3 if other else 2 if refused else 0), capfd.readouterr().err
        assert target.exists() == (code == 0)
        if code == 0:
            onnx.load(target)


def test_unrunnable_operators_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (
        (
            "unknown operator",
            "my.ops.Twist cannot be run here: their inputs were compared, and outputs for random results",
        ),
        (
            "beside an unknown operator",
            "my.ops.Twist cannot be run here: only outputs that do not depend on these operators were compared",
        ),
    ):
        (tmp_path / "model.onnx").write_bytes(MODELS[name]().SerializeToString())
        assert run(["repair", str(tmp_path / "model.onnx")]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
    assert run(["compact", str(tmp_path / "model.onnx")]) == 3
    assert "Declare the true shapes in the file" in capsys.readouterr().err


def test_declared_shapes_of_unknown_operators_are_used(tmp_path: Path) -> None:
    made = MODELS["beside an unknown operator"]()
    made.graph.value_info.append(value("right", shape=[2, onnx_zoo.OUTS]))
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    source.write_bytes(made.SerializeToString())
    assert run(["compact", str(source), "-o", str(target)]) == 0
    assert_same(source, target)


def test_parts_beside_an_unknown_operator_are_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The parallel branch loses its dead connections, and a constant is folded into a bias."""
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    source.write_bytes(MODELS["beside an unknown operator"]().SerializeToString())
    assert run(["repair", str(source), "-o", str(target)]) == 0
    assert "10 inactive connections removed, 3 of them bias carriers" in " ".join(capsys.readouterr().out.split())
    assert_same(source, target)


def test_masks_in_the_file_are_pruned_with_their_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = {**weights(), "mask": (np.arange(24).reshape(4, 6) % 5 > 0).astype(np.float32)}
    nodes = linear()
    nodes[0].input[1] = "masked"
    made = model([node("Mul", ["w1", "mask"], ["masked"]), *nodes], stored)
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    source.write_bytes(made.SerializeToString())
    assert run(["prune", str(source), "--target", "0.7", "-o", str(target)]) == 0
    said = capsys.readouterr().out.split("connections active")[0].split()[-3:]
    assert run(["report", str(target), "--format", "json"]) == 0
    assert f'"active": {said[0]}' in capsys.readouterr().out


def test_tensor_with_other_uses_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The weight is also a summand, where its dead connections are ordinary numbers."""
    stored = weights()
    nodes = [*linear(y="left"), node("ReduceSum", ["x"], ["s"], keepdims=0), node("Add", ["w1", "s"], ["other"])]
    outputs = [value("left"), value("other")]
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    source.write_bytes(model(nodes, stored, outputs=outputs).SerializeToString())
    assert run(["repair", str(source), "-o", str(target)]) == 0
    assert "an operator uses the same tensor as ordinary numbers" in " ".join(capsys.readouterr().out.split())
    assert_same(source, target)


def test_external_data(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    made = onnx_zoo.convolution()
    onnx.save_model(made, source, save_as_external_data=True, location="model.data", size_threshold=0)
    for command in (["repair"], ["compact"], ["prune", "--target", "0.4"], ["repair", "--target", "0.6"]):
        target = tmp_path / "out" / f"{command[0]}{len(command)}.onnx"
        target.parent.mkdir(exist_ok=True)
        assert run([command[0], str(source), *command[1:], "-o", str(target)]) == 0
        if len(command) == 1:
            assert_same(source, target)


def test_text_and_sequences_as_inputs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = value("x", int(TensorProto.STRING), [2, 4])
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(int(TensorProto.FLOAT), [2, 4]))
    sequence = helper.make_value_info("x", kind)
    for given, first, said in (
        (text, node("Cast", ["x"], ["f"], to=int(TensorProto.FLOAT)), "is text"),
        (sequence, node("ConcatFromSequence", ["x"], ["f"], axis=0), "is not a tensor"),
    ):
        made = model([first, *linear(x="f")], weights(), inputs=[given])
        (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
        for command in ("repair", "compact"):
            assert run([command, str(tmp_path / "model.onnx")]) == 2
            assert said in capsys.readouterr().err
