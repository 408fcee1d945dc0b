"""Inactive stored weights of QONNX networks are changed: no output changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from effsparse_cli.formats.onnx.operators import QONNX
from effsparse_cli.formats.onnx.ops.quantized.qonnx import QUANTIZERS, quantize
from tests.formats.onnx.models import graph, masks, model, sparse_array
from tests.formats.onnx.test_qonnx import INTEGER, MINIFLOAT

LAYERS = ("c1", "c2", "fc")


def _runs(op: str) -> type[OpRun]:
    def run(self: OpRun, *inputs: NDArray[Any], **_: Any) -> tuple[NDArray[Any]]:
        return (quantize(self.onnx_node, inputs)[0],)

    return type(op, (OpRun,), {"op_domain": QONNX, "_run": run})


NEW_OPS = [_runs(op) for op in QUANTIZERS]


def quantizer(kind: str, x: str, y: str) -> NodeProto:
    inputs = {"Quant": "tenth zero four", "FloatQuant": "one two one one six", "Trunc": "tenth zero eight seven"}[kind]
    attributes = {"Quant": INTEGER, "FloatQuant": MINIFLOAT, "Trunc": {"rounding_mode": "DOWN"}}[kind]
    return helper.make_node(kind, [x, *inputs.split()], [y], domain=QONNX, **attributes)


def network(kind: str, seed: int) -> ModelProto:
    """Two convolutions and a linear layer; weights and activations are quantized."""
    numbers = {"tenth": 0.1, "zero": 0, "one": 1, "two": 2, "four": 4, "six": 6, "seven": 7, "eight": 8}
    stored: dict[str, NDArray[Any]] = {name: np.asarray(n, np.float32) for name, n in numbers.items()}
    stored |= {
        "c1": sparse_array(seed, 6, 2, 3, 3, density=0.1),
        "c2": sparse_array(seed + 1, 6, 6, 3, 3, density=0.06),
    }
    stored |= {"fc": sparse_array(seed + 2, 3, 24, density=0.2), "shape": np.asarray([1, -1])}
    nodes = [quantizer(kind, name, f"{name}q") for name in LAYERS]
    nodes += [
        helper.make_node("Conv", ["x", "c1q"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        quantizer(kind, "b", "d"),
        helper.make_node("Conv", ["d", "c2q"], ["e"], strides=[2, 2], pads=[1, 1, 1, 1]),
        quantizer(kind, "e", "f"),
        helper.make_node("Reshape", ["f", "shape"], ["g"]),
        helper.make_node("Gemm", ["g", "fcq"], ["y"], transB=1),
    ]
    return model(graph(nodes, {"x": (1, 2, 4, 4)}, ["y"], stored))


def run(content: ModelProto, x: NDArray[Any], **changed: NDArray[Any]) -> NDArray[Any]:
    other = ModelProto()
    other.CopyFrom(content)
    other.opset_import.append(helper.make_opsetid(QONNX, 1))
    for tensor in other.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
    (found,) = ReferenceEvaluator(other, new_ops=NEW_OPS).run(None, {"x": x})
    return np.asarray(found)


@pytest.mark.parametrize("kind", ["Quant", "FloatQuant", "Trunc"])
def test_inactive_stored_weights_do_not_matter(kind: str) -> None:
    generator = np.random.default_rng(0)
    inactive_seen = active_moved = 0
    for seed in range(0, 30, 10):
        content = network(kind, seed)
        kept, active = masks(content, "kept"), masks(content, "active")
        stored = {t.name: numpy_helper.to_array(t) for t in content.graph.initializer}
        x = (generator.normal(size=(1, 2, 4, 4)) * 3).astype(np.float32)
        before = run(content, x)
        noise = {name: generator.normal(size=stored[name].shape).astype(np.float32) * 5 for name in LAYERS}
        idle = {name: kept[name] & ~active[name] for name in LAYERS}
        after = run(content, x, **{name: np.where(idle[name], noise[name], stored[name]) for name in LAYERS})
        assert before.tobytes() == after.tobytes()
        inactive_seen += sum(int(mask.sum()) for mask in idle.values())
        moved = run(content, x, **{name: np.where(active[name], noise[name], stored[name]) for name in LAYERS})
        active_moved += before.tobytes() != moved.tobytes()
    assert inactive_seen
    assert active_moved
