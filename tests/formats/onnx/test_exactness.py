"""Cases in which exactness is easily lost: masks before a softmax, constant conditions, zero scales, sums, control
flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Scan
from tests.formats.onnx.dependence import confirm
from tests.formats.onnx.models import graph, masks, model, sparse_array
from tests.formats.onnx.probes import opaque_labels, relevant

Stored = dict[str, NDArray[Any]]


def read(content: ModelProto, **options: Any) -> Graph:
    return build(content, Path("m.onnx"), LoadOptions(**options))[0]


def made(nodes: list[NodeProto], shape: tuple[int, ...], stored: Stored) -> ModelProto:
    return model(graph(nodes, {"x": shape}, ["y"], stored))


def matters(content: ModelProto, element: int) -> list[int]:
    """Return the input elements that one output element depends on. The others are confirmed by running the model."""
    shape = [dim.dim_value for dim in content.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    assert confirm("exact", content, {"x": x}).elements is not None
    return np.flatnonzero(relevant(read(content), 0, element)["x"]).tolist()


LATER = np.triu(np.ones((3, 3), bool), 1)


@pytest.mark.parametrize("low", [-np.inf, np.finfo(np.float32).min])
def test_added_causal_mask_blocks(low: float) -> None:
    stored = {"mask": np.where(LATER, low, 0).astype(np.float32)}
    nodes = [helper.make_node("Add", ["x", "mask"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    assert [matters(made(nodes, (3, 3), stored), i) for i in (0, 1, 3, 5, 8)] == [[0], [], [3, 4], [], [6, 7, 8]]


def test_selected_causal_mask_blocks() -> None:
    stored: Stored = {"later": LATER, "low": np.asarray(-np.inf, np.float32)}
    nodes = [helper.make_node("Where", ["later", "low", "x"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    assert [matters(made(nodes, (3, 3), stored), i) for i in (3, 5, 8)] == [[3, 4], [], [6, 7, 8]]


def test_subtracted_mask_does_not_block() -> None:
    stored = {"mask": np.where(LATER, -1e38, 0).astype(np.float32)}
    nodes = [helper.make_node("Sub", ["x", "mask"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    assert matters(made(nodes, (3, 3), stored), 8) == [6, 7, 8]


def test_constant_condition_selects() -> None:
    stored: Stored = {"c": np.asarray([True, False, True]), "z": np.zeros(3, np.float32)}
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Where", ["c", "n", "z"], ["y"])]
    assert [matters(made(nodes, (3,), stored), i) for i in range(3)] == [[0], [], [2]]


def test_power_of_zero_is_constant() -> None:
    stored = {"p": np.asarray([2, 0, 3], np.float32)}
    nodes = [helper.make_node("Pow", ["x", "p"], ["y"])]
    assert [matters(made(nodes, (3,), stored), i) for i in range(3)] == [[0], [], [2]]


def test_layer_norm_scale_broadcasts_from_the_last_axis() -> None:
    stored = {"scale": np.asarray([0, 1, 1], np.float32)}
    nodes = [helper.make_node("LayerNormalization", ["x", "scale"], ["y"], axis=0)]
    everything = list(range(9))
    assert [matters(made(nodes, (3, 3), stored), i) for i in (0, 1, 3, 4)] == [[], everything, [], everything]


def test_running_sum_depends_on_previous_elements() -> None:
    stored = {"axis": np.asarray(0, np.int64)}
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=1)]
    assert [matters(made(nodes, (3,), stored), i) for i in range(3)] == [[], [0], [0, 1]]


def normed() -> ModelProto:
    """A convolution whose second channel is cut by a scale of zero."""
    ones = np.ones(2, np.float32)
    stored: Stored = {"conv.weight": np.ones((2, 1, 1, 1), np.float32), "one": ones, "none": ones * 0}
    stored |= {"scale": np.asarray([1, 0], np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "scale", "none", "none", "one"], ["y"]),
    ]
    return made(nodes, (1, 1, 2, 2), stored)


def test_zero_scale_cuts_unless_disabled() -> None:
    assert masks(normed(), "active")["conv"].reshape(-1).tolist() == [True, False]
    assert masks(normed(), "active", norms_cut=False)["conv"].reshape(-1).tolist() == [True, True]


def counting_loop(turns: int | None) -> ModelProto:
    """Apply one weight to x `turns` times, or as often as an input says."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["v", "w"], ["u"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [1, 4]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("u", TensorProto.FLOAT, [1, 4]),
        ],
    )
    weight = np.zeros((4, 4), np.float32)
    weight[[0, 1, 2], [1, 2, 3]] = 1
    stored: Stored = {"w": weight, "yes": np.asarray(True)}
    if turns is not None:
        stored["turns"] = np.asarray(turns, np.int64)
    content = made([helper.make_node("Loop", ["turns", "yes", "x"], ["y"], body=body)], (1, 4), stored)
    if turns is None:
        content.graph.input.append(helper.make_tensor_value_info("turns", TensorProto.INT64, []))
    return content


def test_loop_with_known_iterations() -> None:
    """Each iteration shifts every element by one position."""
    assert [matters(counting_loop(2), i) for i in range(4)] == [[], [], [0], [1]]
    assert masks(counting_loop(2), "active")["w"].sum() == 3
    assert masks(counting_loop(4), "active")["w"].sum() == 0


def test_long_loop_is_scanned() -> None:
    content = counting_loop(3000)
    found = read(content)
    assert any(isinstance(node.op, Scan) and node.op.steps == 3000 for node in found.nodes)
    assert list(opaque_labels(found)) == []


def test_loop_of_any_length() -> None:
    """After any number of iterations, each element depends on those before it and on the count."""
    found = read(counting_loop(None))
    assert list(opaque_labels(found)) == []
    last, first = relevant(found, 0, 3), relevant(found, 0, 0)
    assert last["x"].all()
    assert np.flatnonzero(first["x"]).tolist() == [0]
    assert last["turns"].all()
    assert masks(counting_loop(None), "active")["w"].sum() == 3


def test_live_condition_joins_both_branches() -> None:
    then = graph([helper.make_node("MatMul", ["x", "w1"], ["t"])], {}, ["t"], {"w1": sparse_array(1, 3, 3)})
    other = graph([helper.make_node("MatMul", ["x", "w2"], ["e"])], {}, ["e"], {"w2": sparse_array(2, 3, 3)})
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    content = made([node], (1, 3), {})
    content.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    active = masks(content, "active")
    assert {name: int(mask.sum()) for name, mask in active.items()} == {
        "w1": int((sparse_array(1, 3, 3) != 0).sum()),
        "w2": int((sparse_array(2, 3, 3) != 0).sum()),
    }
    assert relevant(read(content))["c"].all()


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ({"auto_pad": "SAME_UPPER"}, [[0, 1], [1, 2], [2]]),
        ({"auto_pad": "SAME_LOWER"}, [[0], [0, 1], [1, 2]]),
        ({"pads": [0, 1]}, [[0, 1], [1, 2], [2]]),
        ({"pads": [1, 0]}, [[0], [0, 1], [1, 2]]),
    ],
)
def test_padding_starts_where_the_attribute_says(padding: dict[str, Any], expected: list[list[int]]) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[2], **padding)]
    content = made(nodes, (1, 1, 3), {"w": np.ones((1, 1, 2), np.float32)})
    assert [matters(content, element) for element in range(3)] == expected
