"""Where constants go in ONNX models, and where they stay: small graphs, run in onnxruntime before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from effsparse_cli.folding.decide import NOT_UNIFORM
from effsparse_cli.folding.execute import repair_file
from effsparse_cli.folding.results import RepairResult
from effsparse_cli.formats import load, open_model_file
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput
from effsparse_cli.paths import find_paths

Array = NDArray[Any]
DICE = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    return DICE.standard_normal(shape).astype(np.float32)


def with_dead_row(weight: Array, axis: int = 0) -> Array:
    """Remove the inputs of output 1."""
    np.moveaxis(weight, axis, 0)[1] = 0
    return weight


def saved(folder: Path, nodes: list[onnx.NodeProto], shape: list[int], arrays: dict[str, Array], **how: Any) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "model.onnx", **how)
    return folder / "model.onnx"


def outputs(path: Path, shape: list[int]) -> list[Array]:
    # By default, onnxruntime quantizes the activations of products with quantized weights too.
    exact = onnxruntime.SessionOptions()
    exact.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(path, exact, providers=["CPUExecutionProvider"])
    dice = np.random.default_rng(5)
    return [session.run(None, {"x": dice.standard_normal(shape).astype(np.float32)})[0] for _ in range(3)]


def repaired(path: Path, shape: list[int]) -> tuple[RepairResult, Path]:
    """Repair into another file, and check that the outputs are the same."""
    before = path.read_bytes()
    file = open_model_file(path, to_change=True)
    done, changes = repair_file(file)
    target = path.parent / "repaired.onnx"
    file.write(ModelOutput(path=target), changes)
    onnx.checker.check_model(str(target))
    for a, b in zip(outputs(path, shape), outputs(target, shape), strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-5 * max(1, np.abs(a).max()))
    edges = find_paths(load(target, LoadOptions()))
    inactive = {name: each.count("kept") - each.count("active") for name, each in edges.items()}
    assert {name: n for name, n in inactive.items() if n} == {each.layer: each.connections for each in done.left}
    assert path.read_bytes() == before
    return done, target


def test_matrix_products_and_sums(tmp_path: Path) -> None:
    """Into the Add after a product, or a new one."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Add", ["a", "b0"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w1"], ["d"]),
        helper.make_node("Add", ["b1", "d"], ["e"]),
        helper.make_node("Sigmoid", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"]),
    ]
    arrays = {"w0": with_dead_row(numbers(6, 5), 1), "b0": numbers(5), "w1": with_dead_row(numbers(5, 4), 1)}
    arrays |= {"b1": numbers(1, 4), "w2": numbers(4, 3)}
    done, target = repaired(saved(tmp_path, nodes, [2, 6], arrays), [2, 6])
    assert (done.left, done.added) == ((), ("w2_bias",))
    assert done.folded == 3 + 3
    assert done.zeroed == {"b0": 1, "b1": 1}
    assert [node.op_type for node in onnx.load(target).graph.node][-2:] == ["MatMul", "Add"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("flip", [0, 1])
def test_gemm(tmp_path: Path, bias: bool, flip: int) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["a"], transB=1),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "w1", *(["b1"] if bias else [])], ["y"], transB=flip),
    ]
    arrays = {"w0": with_dead_row(numbers(5, 6)), "b0": numbers(5), "w1": numbers(4, 5) if flip else numbers(5, 4)}
    arrays |= {"b1": numbers(4)} if bias else {}
    done, _ = repaired(saved(tmp_path, nodes, [2, 6], arrays), [2, 6])
    assert (done.folded, done.left, done.added) == (4, (), () if bias else ("w1_bias",))


def convolutions(norm: bool, pads: list[int]) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c" if norm else "y"], pads=pads),
    ]
    arrays = {"w0": with_dead_row(numbers(5, 3, 1, 1)), "b0": numbers(5), "w1": numbers(4, 5, 3, 3)}
    if norm:
        nodes.append(helper.make_node("BatchNormalization", ["c", "s", "h", "m", "v"], ["y"]))
        arrays |= {"s": numbers(4), "h": numbers(4), "m": numbers(4), "v": np.abs(numbers(4)) + 0.5}
    return nodes, arrays


@pytest.mark.parametrize("norm", [True, False])
def test_convolutions(tmp_path: Path, norm: bool) -> None:
    nodes, arrays = convolutions(norm, [0, 0, 0, 0])
    done, target = repaired(saved(tmp_path, nodes, [1, 3, 6, 6], arrays), [1, 3, 6, 6])
    assert (done.folded, done.left, done.added) == (36, (), () if norm else ("w1_bias",))
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(target).graph.initializer}
    assert norm == (not np.array_equal(stored.get("m", 0), arrays.get("m", 0)))


def test_padding_stays(tmp_path: Path) -> None:
    nodes, arrays = convolutions(True, [1, 1, 1, 1])
    done, _ = repaired(saved(tmp_path, nodes, [1, 3, 6, 6], arrays), [1, 3, 6, 6])
    assert [(each.layer, each.connections, each.reason) for each in done.left] == [("w1", 36, NOT_UNIFORM)]


def test_bias_shared_by_two_operators(tmp_path: Path) -> None:
    """Exporters store equal tensors once."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["b0"]),
        helper.make_node("Sigmoid", ["b0"], ["c"]),
        helper.make_node("MatMul", ["c", "w1"], ["d"]),
        helper.make_node("Add", ["d", "b"], ["e"]),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b"], ["y"]),
    ]
    arrays = {"w0": with_dead_row(numbers(6, 5), 1), "b": numbers(5), "w1": numbers(5, 5), "w2": numbers(5, 5)}
    done, _ = repaired(saved(tmp_path, nodes, [2, 6], arrays), [2, 6])
    assert (done.folded, done.left, done.added) == (5, (), ("w1_bias",))


def test_external_data_stays_external(tmp_path: Path) -> None:
    nodes, arrays = convolutions(False, [0, 0, 0, 0])
    how = {"save_as_external_data": True, "location": "model.data", "size_threshold": 0}
    path = saved(tmp_path, nodes, [1, 3, 6, 6], arrays, **how)
    data = (tmp_path / "model.data").read_bytes()
    done, target = repaired(path, [1, 3, 6, 6])
    assert done.folded == 36
    assert (tmp_path / "model.data").read_bytes() == data
    kept = onnx.load(target, load_external_data=False).graph.initializer
    assert [t.name for t in kept if t.data_location != TensorProto.EXTERNAL] == ["w1_bias"]


def test_masks_in_the_file_change_too(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["w0", "m0"], ["k0"]),
        helper.make_node("MatMul", ["x", "k0"], ["a"]),
        helper.make_node("Add", ["a", "b0"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("Mul", ["m1", "w1"], ["k1"]),
        helper.make_node("MatMul", ["c", "k1"], ["d"]),
        helper.make_node("Add", ["d", "b1"], ["y"]),
    ]
    ones = np.ones((6, 5), np.float32)
    arrays = {"w0": numbers(6, 5), "m0": with_dead_row(ones, 1), "b0": numbers(5), "w1": numbers(5, 4)}
    arrays |= {"m1": np.ones((5, 4), np.float32), "b1": numbers(4)}
    done, target = repaired(saved(tmp_path, nodes, [2, 6], arrays), [2, 6])
    assert (done.folded, done.left) == (4, ())
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(target).graph.initializer}
    assert not stored["m1"][1].any()
    assert stored["m1"].sum() == 16


def test_mixed_weights_stay(tmp_path: Path) -> None:
    """Every element of a column affects its norm, so none is inactive."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("LpNormalization", ["w1"], ["k1"], axis=0),
        helper.make_node("MatMul", ["b", "k1"], ["y"]),
    ]
    arrays = {"w0": with_dead_row(numbers(6, 5), 1), "w1": numbers(5, 4)}
    done, _ = repaired(saved(tmp_path, nodes, [2, 6], arrays), [2, 6])
    assert done.left == ()
    assert done.masks["w1"].all()


def test_quantized_weights(tmp_path: Path) -> None:
    """Dead weights are set to the zero point; a constant goes into a float bias."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("DequantizeLinear", ["q1", "s1", "z1"], ["k1"]),
        helper.make_node("MatMul", ["b", "k1"], ["c"]),
        helper.make_node("Add", ["c", "b1"], ["y"]),
    ]
    arrays = {"w0": with_dead_row(numbers(6, 5), 1), "q1": DICE.integers(4, 9, (5, 4)).astype(np.uint8)}
    arrays |= {"s1": np.array(0.1, np.float32), "z1": np.array(3, np.uint8), "b1": numbers(4)}
    done, target = repaired(saved(tmp_path, nodes, [2, 6], arrays), [2, 6])
    assert (done.folded, done.left) == (4, ())
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(target).graph.initializer}
    assert (stored["q1"][1] == 3).all()
