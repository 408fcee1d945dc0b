"""QONNX operators: quantizers on weights and activations, and channels-last layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper

from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.onnx.ops.quantized.qonnx import quantize
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph
from tests.formats.onnx.models import Floats, graph, masks, model, sparse_array
from tests.formats.onnx.probes import opaque_labels

GENERAL, LAST = "qonnx.custom_op.general", "qonnx.custom_op.channels_last"
X = np.asarray([0, 0.5, -0.5, 1.5, -1.5, 0.25, -0.25, 100, -100, 1e-9, 2.7], np.float32)
INTEGER: dict[str, Any] = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
MINIFLOAT: dict[str, Any] = {"has_inf": 0, "has_nan": 0, "has_subnormal": 1, "saturation": 1}

# Results of qonnx 1.0.0 for X.
REFERENCE: list[tuple[str, dict[str, Any], list[float], list[float]]] = [
    ("Quant", INTEGER, [0.5, 0, 3], [0, 0.5, -0.5, 1.5, -1.5, 0, 0, 1.5, -2, 0, 1.5]),
    ("Quant", INTEGER | {"narrow": 1}, [0.5, 0, 3], [0, 0.5, -0.5, 1.5, -1.5, 0, 0, 1.5, -1.5, 0, 1.5]),
    ("Quant", INTEGER | {"signed": 0}, [0.5, 1, 2], [0, 0.5, -0.5, 1, -0.5, 0.5, -0.5, 1, -0.5, 0, 1]),
    ("Quant", INTEGER | {"rounding_mode": "CEIL"}, [1, 0, 4], [0, 1, 0, 2, -1, 1, 0, 7, -8, 1, 3]),
    ("Quant", INTEGER | {"rounding_mode": "HALF_UP"}, [1, 0, 4], [0, 1, -1, 2, -2, 0, 0, 7, -8, 0, 3]),
    ("IntQuant", INTEGER, [1, 0, 1], [1, 1, -1, 1, -1, 1, -1, 1, -1, 1, 1]),
    ("Quant", INTEGER, [1, 0.5, 4], [-0.5, 0.5, -0.5, 1.5, -1.5, 0.5, -0.5, 6.5, -8.5, -0.5, 2.5]),
    ("BipolarQuant", {}, [0.5], [0.5, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5, 0.5, 0.5]),
    ("Trunc", {"rounding_mode": "FLOOR"}, [0.5, 0, 8, 7], [0, 0, -0.5, 0.5, -1, 0, 0, 50, -50, 0, 1]),
    ("Trunc", {"rounding_mode": "FLOOR"}, [0.5, 0, 8, 1, 3], [0, 0, -1, 1, -2, 0, 0, 3, -4, 0, 2]),
    ("FloatQuant", MINIFLOAT, [1, 2, 1, 1, 6], [0, 0.5, -0.5, 1.5, -1.5, 0, 0, 6, -6, 0, 3]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "parameters", "expected"), REFERENCE)
def test_values_match_the_reference(
    op: str, attributes: dict[str, Any], parameters: list[float], expected: list[float]
) -> None:
    node = helper.make_node(op, ["x", *map(str, parameters)], ["y"], domain=GENERAL, **attributes)
    (found,) = quantize(node, [X, *(np.asarray(p, np.float32) for p in parameters)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def quantized(op: str, parameters: list[Any], domain: str = GENERAL, **attributes: Any) -> tuple[ModelProto, Floats]:
    """A linear layer whose weight, stored [out, in], is quantized before use."""
    weight = np.asarray([[0, 0.1, -0.1, 3], [2, 0, -2, 0.4], [0, 0, 0, -7]], np.float32)
    stored: dict[str, NDArray[Any]] = {"fc.weight": weight}
    stored |= {f"p{i}": np.asarray(p, np.float32) for i, p in enumerate(parameters)}
    nodes = [
        helper.make_node(op, ["fc.weight", *list(stored)[1:]], ["q"], domain=domain, **attributes),
        helper.make_node("Transpose", ["q"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    return model(graph(nodes, {"x": (1, 4)}, ["y"], stored)), weight


@pytest.mark.parametrize("domain", [GENERAL, "finn.custom_op.general", "onnx.brevitas"])
def test_weight_is_kept_if_its_quantized_value_is_not_zero(domain: str) -> None:
    content, weight = quantized("Quant", [1, 0, 4], domain, **INTEGER)
    expected = np.abs(weight) > 0.5
    for kind in ("kept", "active"):
        assert (masks(content, kind)["fc"] == expected).all()


def test_scale_per_channel_and_zero_point() -> None:
    content, weight = quantized("IntQuant", [[[1], [10], [0.1]], 2, 8], **INTEGER)
    assert (masks(content, "kept")["fc"] == (np.abs(weight) > [[0.5], [5], [0.05]])).all()


def test_bipolar_weight_is_never_zero() -> None:
    content, _ = quantized("BipolarQuant", [0.5])
    assert masks(content, "kept")["fc"].all()
    assert masks(content, "active")["fc"].all()


@pytest.mark.parametrize(
    ("op", "parameters"), [("Trunc", [0.1, 0, 8, 4]), ("Trunc", [0.1, 0, 8, 0.8, 4]), ("FloatQuant", [1, 2, 1, 1, 6])]
)
def test_small_weights_vanish(op: str, parameters: list[float]) -> None:
    content, weight = quantized(op, parameters, **(MINIFLOAT if op == "FloatQuant" else {"rounding_mode": "DOWN"}))
    kept = masks(content, "kept")["fc"]
    assert kept.sum() < (weight != 0).sum()
    assert not kept[weight == 0].any()


def lowered(content: ModelProto) -> Graph:
    return build(content, Path("model.onnx"), LoadOptions())[0]


def at_zero(op: str, parameters: list[Any], **attributes: Any) -> list[bool]:
    """y = x * quantizer(masked x): the second factor is zero where the mask is, if the quantizer keeps zero."""
    stored = {f"p{i}": np.asarray(p, np.float32) for i, p in enumerate(parameters)}
    stored |= {"w": np.asarray([[1, 1], [0, 0]], np.float32), "v": np.ones((2, 2), np.float32)}
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
        helper.make_node(op, ["h", *list(stored)[: len(parameters)]], ["q"], domain=GENERAL, **attributes),
        helper.make_node("Gemm", ["x", "v"], ["g"], transB=1),
        helper.make_node("Mul", ["q", "g"], ["y"]),
    ]
    content = model(graph(nodes, {"x": (1, 2)}, ["y"], stored))
    assert not list(opaque_labels(lowered(content)))
    return [bool(row.any()) for row in masks(content, "active")["v"]]


@pytest.mark.parametrize(
    ("op", "parameters", "attributes", "alive"),
    [
        ("Quant", [1, 0, 4], INTEGER, [True, False]),
        ("Quant", [1, 3, 4], INTEGER, [True, False]),
        ("Quant", [1, 0.5, 4], INTEGER, [True, True]),
        ("Quant", [1, 100, 4], INTEGER, [True, True]),
        ("Quant", [[1, 1], [0, 0.5], 4], INTEGER, [True, True]),
        ("Quant", [[1, 1], [0.5, 0], 4], INTEGER, [True, False]),
        ("Quant", [1, 0, 1], INTEGER, [True, True]),
        ("BipolarQuant", [1], {}, [True, True]),
        ("FloatQuant", [1, 2, 1, 1, 6], MINIFLOAT, [True, False]),
        ("Trunc", [1, 0, 8, 4], {"rounding_mode": "FLOOR"}, [True, False]),
        ("Trunc", [1, 3, 8, 4], {"rounding_mode": "FLOOR"}, [True, True]),
    ],
)
def test_quantizer_at_zero(op: str, parameters: list[Any], attributes: dict[str, Any], alive: list[bool]) -> None:
    assert at_zero(op, parameters, **attributes) == alive


def test_computed_scale_keeps_zero() -> None:
    stored = {"w": np.asarray([[1, 1], [0, 0]], np.float32), "v": np.ones((2, 2), np.float32)}
    stored |= {"zero": np.zeros((), np.float32), "bits": np.asarray(4, np.float32)}
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
        helper.make_node("ReduceMax", ["h"], ["scale"], keepdims=0),
        helper.make_node("Quant", ["h", "scale", "zero", "bits"], ["q"], domain=GENERAL, **INTEGER),
        helper.make_node("Gemm", ["x", "v"], ["g"], transB=1),
        helper.make_node("Mul", ["q", "g"], ["y"]),
    ]
    active = masks(model(graph(nodes, {"x": (1, 2)}, ["y"], stored)), "active")
    assert active["v"].any(1).tolist() == [True, False]


def test_weight_with_computed_scale_is_active() -> None:
    stored = {"w": np.ones((3, 4), np.float32), "zero": np.zeros((), np.float32), "bits": np.asarray(4, np.float32)}
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["scale"], keepdims=0),
        helper.make_node("Quant", ["w", "scale", "zero", "bits"], ["q"], domain=GENERAL, **INTEGER),
        helper.make_node("Gemm", ["x", "q"], ["y"], transB=1),
    ]
    assert masks(model(graph(nodes, {"x": (1, 4)}, ["y"], stored)), "active")["w"].all()


def channels_first() -> ModelProto:
    """Convolution, batch norm with a zero scale, pooling, another convolution; all sparse."""
    stored = network()
    nodes = [
        helper.make_node("Conv", ["x", "c1"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "var"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "c2"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    return model(graph(nodes, {"x": (1, 3, 8, 8)}, ["y"], stored))


def network() -> dict[str, NDArray[Any]]:
    stored: dict[str, NDArray[Any]] = {"c1": sparse_array(1, 6, 3, 3, 3), "c2": sparse_array(2, 4, 6, 3, 3)}
    stored |= {"scale": np.asarray([1, 0, 1, 1, 0, 1], np.float32), "shift": np.zeros(6, np.float32)}
    return stored | {"mean": np.zeros(6, np.float32), "var": np.ones(6, np.float32)}


def test_channels_last_layers_are_exact() -> None:
    first = channels_first()
    stored = network()
    stored |= {name: np.moveaxis(stored[name], 1, -1) for name in ("c1", "c2")}
    nodes = []
    for node in first.graph.node:
        last = NodeProto()
        last.CopyFrom(node)
        last.domain = LAST
        nodes.append(last)
    content = model(graph(nodes, {"x": (1, 8, 8, 3)}, ["y"], stored))
    assert not list(opaque_labels(lowered(content)))
    expected, found = masks(first, "active"), masks(content, "active")
    assert 0 < expected["c1"].sum() < (network()["c1"] != 0).sum()
    for name in ("c1", "c2"):
        assert (np.moveaxis(found[name], -1, 1) == expected[name]).all()


def test_unknown_rounding_mode_is_opaque() -> None:
    content, _ = quantized("Quant", [1, 0, 4], **INTEGER | {"rounding_mode": "SIDEWAYS"})
    assert any("Quant" in label for label in opaque_labels(lowered(content)))
