"""Each operator between two linear layers: the remaining width of the first is known in advance, and outputs stay the
same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from effsparse_cli.compaction.onnx.run import run, session
from effsparse_cli.compaction.onnx.shrink import ShrunkModel, shrink
from effsparse_cli.compaction.onnx.standard_form import to_standard_form

WIDTH = 6
DEAD = (1, 4)
Stored = dict[str, NDArray[Any]]
Nodes = Sequence[NodeProto]
node = helper.make_node


def floats(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) + 2


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def between(nodes: Nodes, stored: Stored, dead: Sequence[int], batch: int | str = 2, opset: int = 18) -> ModelProto:
    """x [2, 5, 4] -> h [2, 5, WIDTH] -> the nodes -> r [..., WIDTH], of which positions `dead` are not read."""
    write, read = floats(4, WIDTH) - 2, floats(WIDTH, 3)
    read[list(dead)] = 0
    whole = [node("MatMul", ["x", "write"], ["h"]), *nodes, node("MatMul", ["r", "read"], ["y"])]
    graph = helper.make_graph(
        whole,
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 5, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in {"write": write, "read": read, **stored}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def cut_same(model: ModelProto, batches: Sequence[int] = (2,)) -> ShrunkModel:
    dice = np.random.default_rng(0)
    whole = to_standard_form(model, Path("one.onnx"))
    feeds = [{"x": dice.standard_normal((n, 5, 4)).astype(np.float32)} for n in batches]
    smaller = shrink(whole, feeds[0])
    before, after = session(whole), session(smaller.model)
    for each in feeds:
        for expected, found in zip(run(before, each), run(after, each), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    return smaller


def width(smaller: ShrunkModel) -> int:
    return smaller.kept.count(smaller.survey.values["write"].axes[1])


def one(kind: str, *inputs: str, **attributes: Any) -> list[NodeProto]:
    return [node(kind, ["h", *inputs], ["r"], **attributes)]


def branch(name: str, of: str) -> GraphProto:
    out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
    return helper.make_graph([node("Abs", [of], [f"{name}_out"])], name, [], [out])


CASES: dict[str, tuple[Nodes, Stored, int]] = {
    **{kind: (one(kind), {}, 4) for kind in ("Relu", "Sigmoid", "Exp", "Identity", "Erf", "Dropout")},
    "bias": (one("Add", "b"), {"b": floats(WIDTH)}, 4),
    "bias of one number": (one("Add", "b"), {"b": floats(1)}, 4),
    "scale": (one("Mul", "b"), {"b": floats(1, 1, WIDTH)}, 4),
    "slope": (one("PRelu", "b"), {"b": floats(WIDTH)}, 4),
    "clip": (one("Clip", "low", "high"), {"low": np.zeros((), np.float32), "high": np.full((), 6, np.float32)}, 4),
    "maximum": (one("Max", "b"), {"b": floats(5, WIDTH)}, 4),
    "where": ([node("Where", ["c", "h", "b"], ["r"])], {"c": np.arange(5)[:, None] > 2, "b": floats(WIDTH)}, 4),
    "cast": ([node("Cast", ["h"], ["d"], to=11), node("Cast", ["d"], ["r"], to=1)], {}, 4),
    "residual": ([node("Relu", ["h"], ["a"]), node("Add", ["h", "a"], ["r"])], {}, 4),
    "softmax over channels": (one("Softmax"), {}, 6),
    "softmax over places": (one("Softmax", axis=1), {}, 4),
    "layer norm": (one("LayerNormalization", "s"), {"s": floats(WIDTH)}, 6),
    "cumulative over channels": (one("CumSum", "a"), {"a": ints(2).reshape(())}, 6),
    "cumulative over places": (one("CumSum", "a"), {"a": ints(1).reshape(())}, 4),
    "mean over places": (one("ReduceMean", "a"), {"a": ints(1)}, 4),
    "norm over channels": (one("LpNormalization"), {}, 6),
    "turned": (
        [node("Transpose", ["h"], ["t"], perm=[2, 0, 1]), node("Transpose", ["t"], ["r"], perm=[1, 2, 0])], {}, 4,
    ),
    "axes added": ([node("Unsqueeze", ["h", "a"], ["u"]), node("Squeeze", ["u", "a"], ["r"])], {"a": ints(1)}, 4),
    "flattened": (one("Flatten", axis=2), {}, 4),
    "heads, an equal column of each": (
        [node("Reshape", ["h", "s"], ["q"]), node("Relu", ["q"], ["p"]), node("Reshape", ["p", "t"], ["r"])],
        {"s": ints(0, 0, 2, 3), "t": ints(2, 5, 6)},
        4,
    ),
    "heads that do not divide": (
        [node("Reshape", ["h", "s"], ["q"]), node("Relu", ["q"], ["p"]), node("Reshape", ["p", "t"], ["r"])],
        {"s": ints(3, 20), "t": ints(2, 5, 6)},
        6,
    ),
    "shape that is computed": (
        [node("Shape", ["h"], ["s"]), node("Relu", ["h"], ["a"]), node("Reshape", ["a", "s"], ["r"])], {}, 4,
    ),
    "spread": (
        [node("Reshape", ["h", "s"], ["q"]), node("Expand", ["q", "t"], ["e"]),
         node("ReduceSum", ["e", "a"], ["r"], keepdims=0)],
        {"s": ints(2, 5, 1, 6), "t": ints(2, 5, 3, 6), "a": ints(2)},
        4,
    ),
    "repeated": (one("Tile", "n"), {"n": ints(1, 2, 1)}, 4),
    "padded along places": (one("Pad", "p"), {"p": ints(0, 1, 0, 0, 1, 0)}, 4),
    "parts exchanged": (
        [node("Split", ["h", "s"], ["a", "b"], axis=2), node("Concat", ["a", "b"], ["r"], axis=-1)],
        {"s": ints(2, 4)},
        4,
    ),
    "equal parts": (
        [node("Split", ["h"], ["a", "b"], axis=2, num_outputs=2), node("Concat", ["a", "b"], ["r"], axis=2)], {}, 4,
    ),
    "slices": (
        [node("Slice", ["h", "z", "m", "a"], ["f"]), node("Slice", ["h", "m", "e", "a"], ["l"]),
         node("Concat", ["f", "l"], ["r"], axis=2)],
        {"z": ints(0), "m": ints(2), "e": ints(2**62), "a": ints(-1)},
        4,
    ),
    "every second place": (
        one("Slice", "z", "e", "a", "t"), {"z": ints(0), "e": ints(9), "a": ints(1), "t": ints(2)}, 4,
    ),
    "backwards": (one("Slice", "z", "e", "a", "t"), {"z": ints(-1), "e": ints(-99), "a": ints(2), "t": ints(-1)}, 6),
    "chosen": (one("Gather", "i", axis=2), {"i": ints(0, 1, 2, 3, 4, -1)}, 4),
    "one place chosen": (one("Gather", "i", axis=1), {"i": ints(3)}, 4),
    "einsum": (one("Einsum", "b", equation="abc,dc->adc"), {"b": floats(7, WIDTH)}, 4),
    "unknown": ([node("TopK", ["h", "k"], ["r", "places"], axis=1)], {"k": ints(2)}, 6),
    "graphs inside": (
        [node("If", ["c"], ["r"], then_branch=branch("t", "h"), else_branch=branch("e", "h"))],
        {"c": np.array(True)},
        6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    nodes, stored, left = CASES[name]
    smaller = cut_same(between(nodes, stored, DEAD))
    assert width(smaller) == left
    assert smaller.survey.unknown == {"unknown": ("TopK",), "graphs inside": ("If",)}.get(name, ())
    assert width(cut_same(between(nodes, stored, ()))) == WIDTH


@pytest.mark.parametrize("name", ["Relu", "bias", "residual", "shape that is computed", "parts exchanged", "flattened"])
def test_batches_of_any_size(name: str) -> None:
    nodes, stored, left = CASES[name]
    smaller = cut_same(between(nodes, stored, DEAD, batch="n"), batches=(1, 3))
    assert width(smaller) == left
    assert smaller.model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_sizes_that_are_attributes() -> None:
    """Sizes are attributes before opset 13."""
    nodes = [
        node("Slice", ["h"], ["f"], starts=[0], ends=[2], axes=[2]),
        node("Slice", ["h"], ["l"], starts=[2], ends=[9], axes=[2]),
        node("Split", ["l"], ["m", "n"], axis=2, split=[1, 3]),
        node("Concat", ["f", "m", "n"], ["r"], axis=2),
    ]
    assert width(cut_same(between(nodes, {}, DEAD, opset=9))) == 4


def test_readers_of_zeros_are_removed() -> None:
    """Column 2 is always zero, so its readers multiply zeros."""
    model = between(one("Relu"), {}, ())
    write = numpy_helper.to_array(model.graph.initializer[0]).copy()
    write[:, 2] = 0
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(write, "write"))
    assert width(cut_same(model)) == 5
    shifted = between(one("Add", "b"), {"b": floats(WIDTH)}, ())
    shifted.graph.initializer[0].CopyFrom(numpy_helper.from_array(write, "write"))
    assert width(cut_same(shifted)) == WIDTH


def test_products_of_activations() -> None:
    """Scores are sums over the width: a column that is always zero in one factor adds nothing."""
    turned = node("Transpose", ["k"], ["t"], perm=[0, 2, 1])
    nodes = [
        node("MatMul", ["x", "keys"], ["k"]),
        turned,
        node("MatMul", ["h", "t"], ["s"]),
        node("MatMul", ["s", "h2"], ["r"]),
    ]
    values = node("MatMul", ["x", "values"], ["h2"])
    keys = floats(4, WIDTH)
    keys[:, [0, 5]] = 0
    model = between([values, *nodes], {"keys": keys, "values": floats(4, WIDTH)}, DEAD)
    smaller = cut_same(model)
    assert width(smaller) == 4
    assert smaller.kept.count(smaller.survey.values["values"].axes[1]) == 4


def test_zero_branches_are_removed() -> None:
    stored = {"a": floats(WIDTH, 9), "b": np.zeros((9, WIDTH), np.float32)}
    nodes = [node("MatMul", ["h", "a"], ["i"]), node("MatMul", ["i", "b"], ["z"]), node("Add", ["h", "z"], ["r"])]
    smaller = cut_same(between(nodes, stored, DEAD))
    assert [n.op_type for n in smaller.model.graph.node] == ["MatMul", "MatMul"]


def test_shared_equal_vectors_are_copied() -> None:
    """Two layers share one bias of zeros, and one of them loses channels."""
    stored = {"b": np.zeros(WIDTH, np.float32), "w": floats(WIDTH, WIDTH)}
    nodes = [node("Add", ["h", "b"], ["i"]), node("MatMul", ["i", "w"], ["j"]), node("Add", ["j", "b"], ["r"])]
    smaller = cut_same(between(nodes, stored, DEAD))
    assert smaller.kept.count(smaller.survey.values["w"].axes[1]) == 4
    assert width(smaller) == WIDTH


def test_masks_are_applied_to_weights() -> None:
    mask = np.ones((4, WIDTH), np.float32)
    mask[0] = 0
    model = between(one("Relu"), {"m": mask}, DEAD)
    model.graph.node[0].input[1] = "masked"
    model.graph.node.insert(0, node("Mul", ["m", "write"], ["masked"]))
    smaller = cut_same(model)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in smaller.model.graph.initializer}
    assert shapes == {"write": (4, 4), "read": (4, 3)}


def test_quantized_weights_lose_scales_and_zero_points() -> None:
    dice = np.random.default_rng(0)
    stored: Stored = {
        "q": dice.integers(-9, 9, (4, WIDTH)).astype(np.int8),
        "s": dice.uniform(0.1, 1, WIDTH).astype(np.float32),
        "z": np.full(WIDTH, 3, np.int8),
    }
    stored["q"][:, 0] = 3
    model = between([], stored, DEAD)
    model.graph.node[0].CopyFrom(node("MatMul", ["x", "d"], ["r"]))
    model.graph.node.insert(0, node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=1))
    smaller = cut_same(model)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in smaller.model.graph.initializer}
    # Column 0 is at its zero point, so its readers multiply zeros.
    assert shapes == {"q": (4, 3), "s": (3,), "z": (3,), "read": (3, 3)}


def test_tables_lose_columns() -> None:
    model = between(
        [node("Gather", ["table", "i"], ["e"]), node("Add", ["h", "e"], ["r"])], {"table": floats(9, WIDTH)}, DEAD
    )
    model.graph.node.insert(0, node("ArgMax", ["x"], ["i"], axis=-1, keepdims=0))
    smaller = cut_same(model)
    assert {t.name: tuple(t.dims) for t in smaller.model.graph.initializer}["table"] == (9, 4)


def test_functions_and_sparse_tensors() -> None:
    """A local function is inlined, a sparse tensor becomes a dense one that is sliced."""
    model = between([node("Twice", ["h"], ["r"], domain="own")], {}, DEAD)
    model.opset_import.append(helper.make_opsetid("own", 1))
    body = [node("Add", ["a", "a"], ["b"])]
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
    read = next(tensor for tensor in model.graph.initializer if tensor.name == "read")
    array = numpy_helper.to_array(read)
    places = np.flatnonzero(array)
    model.graph.initializer.remove(read)
    values = numpy_helper.from_array(array.reshape(-1)[places], "read")
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(places.astype(np.int64)), list(array.shape))
    )
    smaller = cut_same(model)
    assert width(smaller) == 4
    assert {t.name: tuple(t.dims) for t in smaller.model.graph.initializer}["read"] == (4, 3)


def test_stored_tensors_that_are_also_inputs() -> None:
    """Old exporters list stored tensors as inputs: their declared shapes are updated."""
    model = between(one("Relu"), {}, DEAD)
    model.graph.input.append(helper.make_tensor_value_info("write", TensorProto.FLOAT, [4, WIDTH]))
    smaller = cut_same(model)
    assert [dim.dim_value for dim in smaller.model.graph.input[1].type.tensor_type.shape.dim] == [4, 4]


def test_model_outputs_keep_their_shape() -> None:
    model = between(one("Relu"), {}, DEAD)
    model.graph.output.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, None))
    assert width(cut_same(model)) == WIDTH
    only = to_standard_form(model, Path("one.onnx"), ["y"])
    assert [value.name for value in only.graph.output] == ["y"]
    assert width(cut_same(only)) == 4
