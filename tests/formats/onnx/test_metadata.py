"""Annotated models: the entries are where they belong, and without them the file is the one that was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, helper

import effsparse
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.onnx.proto import op_calls
from tests.commands.conftest import SAMPLES
from tests.formats.onnx.forms import FORMS
from tests.formats.onnx.hostile.build import node
from tests.formats.onnx.models import graph, mlp, model, sparse_array
from tests.formats.onnx.test_order import branch, function, reverse

Make = Callable[[], ModelProto]


def branches() -> ModelProto:
    nodes = [
        node("ReduceMax", "x", "m", keepdims=0),
        node("Cast", "m", "yes", to=onnx.TensorProto.BOOL),
        node("If", "yes", "y", then_branch=branch("a"), else_branch=branch("b")),
    ]
    return model(graph(nodes, {"x": (1, 4)}, ["y"], {"w": np.ones((4, 4), np.float32)}))


def recurrent() -> ModelProto:
    stored = {"W": sparse_array(1, 1, 12, 4), "R": sparse_array(2, 1, 12, 3), "fc.weight": sparse_array(3, 3, 2)}
    nodes = [
        node("LSTM", "x W R", "all last", hidden_size=3),
        node("Squeeze", "last", "h"),
        node("MatMul", "h fc.weight", "y"),
    ]
    return model(graph(nodes, {"x": (5, 1, 4)}, ["y"], stored))


def unsorted() -> ModelProto:
    content = mlp()[0]
    reverse(content.graph)
    return content


def large() -> ModelProto:
    """Tensors that stay in the file while it is read."""
    stored = {f"fc{i}.weight": sparse_array(i, 300, 300) for i in range(2)}
    nodes = [node("MatMul", "x fc0.weight", "h"), node("MatMul", "h fc1.weight", "y")]
    return model(graph(nodes, {"x": (1, 300)}, ["y"], stored))


def formed() -> list[Make]:
    stored = mlp()[1]

    def make(form: Callable[..., ModelProto]) -> Make:
        return lambda: form(stored["fc1.weight"], stored["fc2.weight"])

    return [make(form) for form in FORMS]


def in_functions() -> ModelProto:
    return function(sparse_array(3, 4, 5))


MODELS: list[Make] = [lambda: mlp()[0], large, unsorted, branches, recurrent, in_functions, *formed()]


def saved(content: ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(content.SerializeToString())
    return path


def entries(message: ModelProto | NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in message.metadata_props if entry.key.startswith("effsparse.")}


def stripped(content: ModelProto) -> bytes:
    messages: list[ModelProto | NodeProto] = [content, *(call for _, call in op_calls(content))]
    for message in messages:
        others = [entry for entry in message.metadata_props if not entry.key.startswith("effsparse.")]
        del message.metadata_props[:]
        message.metadata_props.extend(others)
    return bytes(content.SerializeToString())


@pytest.mark.parametrize("make", MODELS)
def test_nothing_else_changes(make: Make, tmp_path: Path) -> None:
    content = make()
    content.metadata_props.add(key="licence", value="mine")
    content.graph.node[0].metadata_props.add(key="namespace", value="theirs")
    source, target = saved(content, tmp_path), tmp_path / "annotated.onnx"
    report = effsparse.analyze(source)
    effsparse.annotate(source, output=target)
    after = onnx.load(target)
    annotated = {entries(call)["effsparse.layer"] for _, call in op_calls(after) if entries(call)}
    assert {name for names in annotated for name in names.split(", ")} == {layer.name for layer in report.layers}
    assert entries(after)["effsparse.active"] == str(report.totals.active)
    assert stripped(after) == source.read_bytes()
    assert effsparse.analyze(target).layers == report.layers


@pytest.mark.parametrize("ir_version", [4, 9, 10])
def test_readers_of_older_versions(ir_version: int, tmp_path: Path) -> None:
    content = onnx.load(SAMPLES / "lenet5.onnx")
    content.ir_version = ir_version
    source, target = saved(content, tmp_path), tmp_path / "annotated.onnx"
    effsparse.annotate(source, output=target)
    onnx.checker.check_model(target, full_check=True)
    assert onnx.load(target).ir_version == ir_version
    x = {"input": np.ones((1, 3, 32, 32), np.float32)}
    before, after = (onnxruntime.InferenceSession(path).run(None, x)[0] for path in (source, target))
    assert np.array_equal(before, after)


def test_entries_say_what_the_report_says(tmp_path: Path) -> None:
    source, target = saved(mlp()[0], tmp_path), tmp_path / "annotated.onnx"
    report = effsparse.analyze(source)
    effsparse.annotate(source, output=target)
    first, _, second = map(entries, onnx.load(target).graph.node)
    for layer, found in zip(report.layers, (first, second), strict=True):
        assert found["effsparse.layer"] == layer.name
        assert float(found["effsparse.direct_sparsity"]) == layer.direct_sparsity
        assert float(found["effsparse.effective_sparsity"]) == layer.effective_sparsity
        assert int(found["effsparse.inactive"]) == layer.counts.inactive > 0
        assert int(found.get("effsparse.no_output", 0)) == layer.counts.no_output


def test_operator_with_several_layers(tmp_path: Path) -> None:
    source, target = saved(recurrent(), tmp_path), tmp_path / "annotated.onnx"
    report = effsparse.analyze(source)
    effsparse.annotate(source, output=target)
    found = entries(onnx.load(target).graph.node[0])
    own = [layer for layer in report.layers if layer.op == "lstm"]
    assert found["effsparse.layer"] == ", ".join(layer.name for layer in own)
    assert int(found["effsparse.kept"]) == sum(layer.counts.kept for layer in own)
    for layer in own:
        assert float(found[f"effsparse.effective_sparsity.{layer.name}"]) == layer.effective_sparsity


def test_annotating_again_replaces(tmp_path: Path) -> None:
    source, once, twice = saved(mlp()[0], tmp_path), tmp_path / "once.onnx", tmp_path / "twice.onnx"
    effsparse.annotate(source, output=once)
    effsparse.annotate(once, output=twice)
    assert twice.read_bytes() == once.read_bytes()
    effsparse.annotate(once, in_place=True)
    assert twice.read_bytes() == once.read_bytes()


@pytest.mark.parametrize("same_folder", [True, False])
def test_external_data(same_folder: bool, tmp_path: Path) -> None:
    source = tmp_path / "m.onnx"
    onnx.save(mlp()[0], source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    given = source.read_bytes(), (tmp_path / "weights.bin").read_bytes()
    target = tmp_path / "annotated.onnx" if same_folder else tmp_path / "other" / "annotated.onnx"
    target.parent.mkdir(exist_ok=True)
    effsparse.annotate(source, output=target)
    assert (source.read_bytes(), (tmp_path / "weights.bin").read_bytes()) == given
    after, bare = onnx.load(target), onnx.load(target, load_external_data=False)
    assert stripped(after) == bytes(onnx.load(source).SerializeToString())
    (place,) = {entry.value for t in bare.graph.initializer for entry in t.external_data if entry.key == "location"}
    assert (target.parent / place).read_bytes() == given[1]
    with pytest.raises(UsageError, match="external data"):
        effsparse.annotate(source, in_place=True)


def test_function_called_with_two_weights(tmp_path: Path) -> None:
    """Its operator uses both."""
    body = [node("MatMul", "a w", "b")]
    linear = helper.make_function("local", "Linear", ["a", "w"], ["b"], body, [helper.make_opsetid("", 18)])
    nodes = [node("Linear", "x v", "h", domain="local"), node("Linear", "h w", "y", domain="local")]
    stored = {"v": sparse_array(1, 4, 6), "w": sparse_array(2, 6, 3)}
    source, target = saved(model(graph(nodes, {"x": (1, 4)}, ["y"], stored), [linear]), tmp_path), tmp_path / "a.onnx"
    effsparse.annotate(source, output=target)
    assert entries(onnx.load(target).functions[0].node[0])["effsparse.layer"] == "v, w"
