"""Mixed weights in ONNX graphs: standardized, normalized, multiplied with each other."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, helper

from tests.formats.onnx.models import Floats, graph, masks, model

node = helper.make_node


def weight() -> Floats:
    """Four hidden neurons with four inputs; one stored zero."""
    stored: Floats = np.sin(np.arange(1.0, 17.0)).reshape(4, 4).astype(np.float32)
    stored[0, 1] = 0
    return stored


LAST = np.array([[1, 1, 0, 0], [1, -1, 0, 0]], np.float32)
"""Reads the first two hidden neurons."""

STANDARDIZED = [
    node("ReduceMean", ["w", "axes"], ["mean"]),
    node("Sub", ["w", "mean"], ["centered"]),
    node("Mul", ["centered", "centered"], ["squared"]),
    node("ReduceMean", ["squared", "axes"], ["variance"]),
    node("Sqrt", ["variance"], ["deviation"]),
    node("Div", ["centered", "deviation"], ["used"]),
]
ROWS = {
    "mean and variance": STANDARDIZED,
    "length": [node("LpNormalization", ["w"], ["used"], axis=1)],
    "layer normalization": [node("LayerNormalization", ["w", "ones"], ["used"], axis=1)],
    "softmax": [node("Softmax", ["w"], ["used"], axis=1)],
    "cumulative sum": [node("CumSum", ["w", "one"], ["used"])],
}


def active(nodes: list[NodeProto], transposed: bool = False) -> dict[str, list[list[bool]]]:
    used = [node("Transpose", ["used"], ["turned"])] if transposed else []
    product = node("MatMul", ["x", "turned"], ["h"]) if transposed else node("Gemm", ["x", "used"], ["h"], transB=1)
    stored = {
        "w": weight(),
        "last": LAST,
        "axes": np.array([1]),
        "one": np.array(1),
        "ones": np.ones(4, np.float32),
    }
    content = graph(
        [*nodes, *used, product, node("Gemm", ["h", "last"], ["y"], transB=1)], {"x": (1, 4)}, ["y"], stored
    )
    return {name: mask.tolist() for name, mask in masks(model(content), "active").items()}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("nodes", ROWS.values(), ids=ROWS)
def test_mixed_row_is_active_if_any_element_is(nodes: list[NodeProto], transposed: bool) -> None:
    expected = [[True, False, True, True], [True] * 4, [False] * 4, [False] * 4]
    assert active(nodes, transposed) == {"w": expected, "last": (LAST != 0).tolist()}


def test_elementwise_functions_mix_nothing() -> None:
    expected = [[True, False, True, True], [True] * 4, [False] * 4, [False] * 4]
    assert active([node("Tanh", ["w"], ["used"])])["w"] == expected


def test_mask_before_standardization_decides_what_is_kept() -> None:
    mask = np.ones((4, 4), np.float32)
    mask[1, 2:] = 0
    nodes = [node("Constant", [], ["mask"], value=helper.make_tensor("m", 1, (4, 4), mask.reshape(-1)))]
    nodes.append(node("Mul", ["w", "mask"], ["masked"]))
    for each in STANDARDIZED:
        again = helper.make_node(each.op_type, ["masked" if n == "w" else n for n in each.input], each.output)
        nodes.append(again)
    found = active(nodes)["w"]
    assert found == [[True] * 4, [True, True, False, False], [False] * 4, [False] * 4]


def test_factors_and_summands_are_separate_layers() -> None:
    stored = {
        "w": np.ones((3, 4), np.float32),
        "up": np.ones((3, 2), np.float32),
        "down": np.ones((2, 4), np.float32),
        "last": np.array([[0, 1, 1], [0, 1, 1]], np.float32),
    }
    nodes = [
        node("MatMul", ["up", "down"], ["update"]),
        node("Add", ["w", "update"], ["used"]),
        node("Gemm", ["x", "used"], ["h"], transB=1),
        node("Gemm", ["h", "last"], ["y"], transB=1),
    ]
    found = masks(model(graph(nodes, {"x": (1, 4)}, ["y"], stored)), "active")
    assert found["up"].tolist() == [[False] * 2, [True] * 2, [True] * 2]
    assert found["down"].all()
    assert found["w"].tolist() == [[False] * 4, [True] * 4, [True] * 4]
