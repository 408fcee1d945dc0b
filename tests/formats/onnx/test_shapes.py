"""Input shapes: declared, given by the user, or assumed and noted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph
from tests.formats.onnx.models import graph, model, sparse_array


def relus(shapes: Mapping[str, Any]) -> ModelProto:
    nodes = [helper.make_node("Relu", [name], [f"{name}.out"]) for name in shapes]
    return model(graph(nodes, shapes, [f"{name}.out" for name in shapes]))


def read(content: ModelProto, **options: Any) -> Graph:
    return build(content, Path("m.onnx"), LoadOptions(**options))[0]


def source_shapes(found: Graph) -> list[tuple[int, ...]]:
    return [found.nodes[i].shape for i in found.sources]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ((2, 3), (2, 3)),
        (("batch", 3, "height", "width"), (1, 3, 224, 224)),
        ((None, 3, None, None), (1, 3, 224, 224)),
        ((None, None, None, 3), (1, 224, 224, 3)),
        (("batch", "sequence"), (1, 8)),
        (("sequence", "batch", 5), (8, 1, 5)),
        (("batch", "2*seq"), (1, 16)),
        (("batch", "past + 1", "past"), (1, 9, 8)),
        ((2, None, 128), (2, 1, 128)),
    ],
)
def test_assumed_shapes(declared: tuple[Any, ...], expected: tuple[int, ...]) -> None:
    found = read(relus({"x": declared}))
    assert source_shapes(found) == [expected]
    open_sizes = any(not isinstance(dim, int) for dim in declared)
    assert any("'x' is assumed to have shape" in note for note in found.notes) == open_sizes


def test_shape_by_name_and_dimensions_by_symbol() -> None:
    content = relus({"x": ("batch", 3, "h", "h"), "ids": ("batch", "seq")})
    found = read(content, input_shapes={"x": (2, 3, 9, 9)}, dims={"seq": 5})
    assert source_shapes(found) == [(2, 3, 9, 9), (2, 5)]
    assert read(content, input_shapes={"": (1, 3, 9, 9)}).nodes[0].shape == (1, 3, 9, 9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"input_shapes": {"z": (1,)}}, "no input 'z'"),
        ({"input_shapes": {"x": (1, 4, 9, 9)}}, "cannot have the shape 1x4x9x9"),
        ({"input_shapes": {"x": (1, 3)}}, "cannot have the shape 1x3"),
        ({"dims": {"depth": 2}}, "no dimension 'depth'"),
    ],
)
def test_invalid_shapes(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(relus({"x": ("batch", 3, "h", "w")}), **options)


def classifier(size: int) -> ModelProto:
    """Return a convolution and a linear layer that accepts images of one size only."""
    stored = {"conv.weight": sparse_array(1, 4, 3, 3, 3), "fc.weight": sparse_array(2, 5, 4 * (size - 2) ** 2)}
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "fc.weight"], ["y"], transB=1),
    ]
    return model(graph(nodes, {"x": ("n", 3, "h", "w")}, ["y"], stored))


def test_sizes_are_tried_until_one_fits() -> None:
    found = read(classifier(32))
    assert source_shapes(found) == [(1, 3, 32, 32)]
    assert "1x3x32x32" in found.notes[0]


def test_size_that_cannot_be_guessed() -> None:
    with pytest.raises(LoadError, match="--input-shape") as caught:
        read(classifier(37))
    assert "Gemm" in str(caught.value)
    assert source_shapes(read(classifier(37), input_shapes={"x": (1, 3, 37, 37)})) == [(1, 3, 37, 37)]


def test_shape_arithmetic_is_evaluated() -> None:
    """A reshape to [batch, -1], with every step a node, as exporters write it."""
    stored: dict[str, Any] = {
        "zero": np.asarray(0, np.int64),
        "axis": np.asarray([0], np.int64),
        "rest": np.asarray([-1], np.int64),
        "fc.weight": sparse_array(1, 12, 5),
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["flat"]),
        helper.make_node("MatMul", ["flat", "fc.weight"], ["y"]),
    ]
    found = read(model(graph(nodes, {"x": ("n", 3, 4)}, ["y"], stored)))
    assert found.nodes[found.outputs[0]].shape == (1, 5)


def test_initializer_that_is_also_an_input_is_noted() -> None:
    content = classifier(32)
    content.graph.input.append(helper.make_tensor_value_info("fc.weight", TensorProto.FLOAT, [5, 3600]))
    found = read(content)
    assert len(found.sources) == 1
    assert any("also inputs" in note and "fc.weight" in note for note in found.notes)


def test_outputs_by_name_or_position() -> None:
    content = relus({"a": (1, 2), "b": (1, 3)})
    assert len(read(content).outputs) == 2
    for wanted in ("b.out", "1"):
        found = read(content, outputs=(wanted,))
        assert [found.nodes[i].shape for i in found.outputs] == [(1, 3)]
