"""The active connections do not depend on where a weight is stored, or on what moves or masks it before its use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.options import LoadOptions
from tests.formats.onnx.forms import FORMS, as_dynamic_integers, as_masks, as_qdq, linear
from tests.formats.onnx.models import graph, masks, mlp, model, read, sparse_array, tensor


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_of_storage_gives_the_same_connections(form: Any) -> None:
    plain, stored = mlp()
    changed = form(stored["fc1.weight"], stored["fc2.weight"])
    onnxruntime.InferenceSession(changed.SerializeToString())
    for kind in ("kept", "active", "no_input", "no_output"):
        expected, found = masks(plain, kind), masks(changed, kind)
        assert list(found) == ["fc1", "fc2"]
        for name, mask in expected.items():
            assert np.array_equal(found[name].reshape(mask.shape), mask), (kind, name)


def test_dynamic_scale_makes_dead_neurons_matter() -> None:
    """The scale is computed from all outputs of a layer, so dead neurons still affect the rounding."""
    plain, stored = mlp()
    changed = as_dynamic_integers(stored["fc1.weight"], stored["fc2.weight"])
    for name, mask in masks(plain, "kept").items():
        assert np.array_equal(masks(changed, "kept")[name], mask)
    for name, mask in masks(plain, "active").items():
        assert not (mask & ~masks(changed, "active")[name]).any()
    assert masks(changed, "active")["fc1"].sum() > masks(plain, "active")["fc1"].sum()


def test_reference_model_has_inactive_connections() -> None:
    plain, stored = mlp()
    kept, active = masks(plain, "kept"), masks(plain, "active")
    assert {k: int(v.sum()) for k, v in kept.items()} == {k[:3]: int((v != 0).sum()) for k, v in stored.items()}
    assert all(0 < active[k].sum() < kept[k].sum() for k in kept)


def test_external_data_is_read_in_place(tmp_path: Path) -> None:
    plain, _ = mlp()
    onnx.save(plain, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    found = read(tmp_path / "m.onnx", LoadOptions())
    for name, mask in masks(mlp()[0], "kept").items():
        assert np.array_equal(found.layers[name].kept(), mask)


def test_shared_weight_is_one_layer() -> None:
    weight = sparse_array(1, 6, 6)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    content = model(graph(nodes, {"x": (1, 6)}, ["y"], {"w": weight}))
    found = masks(content, "active")
    assert list(found) == ["w"]
    assert found["w"].sum() <= (weight != 0).sum()


def test_weight_of_a_function_called_twice_counts_once() -> None:
    square = sparse_array(3, 9, 9)
    body = [helper.make_node("Constant", [], ["w"], value=tensor("", square)), linear("a", "w", "b")]
    function = helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    nodes = [helper.make_node("F", ["x"], ["h"], domain="local"), helper.make_node("F", ["h"], ["y"], domain="local")]
    found = masks(model(graph(nodes, {"x": (1, 9)}, ["y"]), [function]), "kept")
    assert list(found) == ["w"]
    assert found["w"].sum() == (square != 0).sum()


def test_concatenated_weights_keep_their_names() -> None:
    """Rows of queries, keys and values, concatenated for one product."""
    parts = {f"{name}.weight": sparse_array(i, 4, 9) for i, name in enumerate("qkv")}
    nodes = [helper.make_node("Concat", list(parts), ["w"], axis=0), linear("x", "w", "y")]
    found = masks(model(graph(nodes, {"x": (1, 9)}, ["y"], parts)), "active")
    assert {name: int(mask.sum()) for name, mask in found.items()} == {
        name[0]: int((array != 0).sum()) for name, array in parts.items()
    }


def test_mask_decides_even_where_the_weight_is_zero() -> None:
    weight, mask = np.zeros((4, 9), np.float32), sparse_array(1, 4, 9) != 0
    nodes = [helper.make_node("Mul", ["w", "m"], ["wm"]), linear("x", "wm", "y")]
    content = model(graph(nodes, {"x": (1, 9)}, ["y"], {"w": weight, "m": mask.astype(np.float32)}))
    assert np.array_equal(masks(content, "kept")["w"], mask)


def test_minus_zero_is_zero_and_nan_is_kept() -> None:
    weight = np.asarray([[-0.0, np.nan, 1e-45, 0.0]], np.float32)
    content = model(graph([linear("x", "w", "y")], {"x": (1, 4)}, ["y"], {"w": weight}))
    assert masks(content, "kept")["w"].tolist() == [[False, True, True, False]]


def test_table_with_live_indices_is_an_embedding() -> None:
    table = sparse_array(1, 7, 5)
    nodes = [helper.make_node("Gather", ["t.weight", "x"], ["y"])]
    content = model(graph(nodes, {"x": (2, 3)}, ["y"], {"t.weight": table}, kind=TensorProto.INT64))
    layer = build(content, Path("m"), LoadOptions())[0].layers["t"]
    assert layer.embedding
    assert np.array_equal(masks(content, "active")["t"], table != 0)


def test_table_that_is_also_multiplied_by_is_a_layer() -> None:
    table = sparse_array(1, 7, 5)
    nodes = [
        helper.make_node("Gather", ["t", "x"], ["e"]),
        helper.make_node("Gemm", ["e", "t"], ["y"], transB=1),
    ]
    content = model(graph(nodes, {"x": (2,)}, ["y"], {"t": table}, kind=TensorProto.INT64))
    layer = build(content, Path("m"), LoadOptions())[0].layers["t"]
    assert (layer.op, layer.embedding) == ("linear", False)


def test_masks_and_nonfinite_values_are_noted() -> None:
    _, stored = mlp()
    notes = build(as_masks(stored["fc1.weight"], stored["fc2.weight"]), Path("m"), LoadOptions())[0].notes
    assert "masks are applied to 2 of 2 weight tensors" in notes
    weight = np.asarray([[np.nan, 1.0], [np.inf, 1.0]], np.float32)
    content = model(graph([linear("x", "w", "y")], {"x": (1, 2)}, ["y"], {"w": weight}))
    notes = build(content, Path("m"), LoadOptions())[0].notes
    assert notes == ("NaN or infinite values in 1 weight tensor (w): they count as kept",)


def test_values_are_those_before_the_mask() -> None:
    _, stored = mlp()
    masked = build(as_masks(stored["fc1.weight"], stored["fc2.weight"]), Path("m"), LoadOptions())[0]
    scaled = build(as_qdq(stored["fc1.weight"], stored["fc2.weight"]), Path("m"), LoadOptions())[0]
    assert masked.layers["fc1"].values is not None
    assert scaled.layers["fc1"].values is not None
    assert (masked.layers["fc1"].values() > 1).all()
    assert np.allclose(scaled.layers["fc1"].values(), 0.7 * np.sign(stored["fc1.weight"]), atol=1e-6)


def test_quantized_table_is_relative_to_its_zero_point() -> None:
    table = np.asarray([[3, 4, 3], [1, 3, 3]], np.int8)
    stored: dict[str, NDArray[Any]] = {"t": table, "s": np.asarray(0.5, np.float32), "z": np.asarray(3, np.int8)}
    nodes = [
        helper.make_node("Gather", ["t", "x"], ["g"]),
        helper.make_node("DequantizeLinear", ["g", "s", "z"], ["y"]),
    ]
    content = model(graph(nodes, {"x": (2,)}, ["y"], stored, kind=TensorProto.INT64))
    assert np.array_equal(masks(content, "kept")["t"], table != 3)
    assert np.array_equal(masks(content, "active")["t"], table != 3)


def test_unused_weight_is_listed_and_not_counted() -> None:
    plain, _ = mlp()
    plain.graph.initializer.append(tensor("aux.weight", sparse_array(9, 3, 3)))
    found = build(plain, Path("m"), LoadOptions())[0]
    assert found.unused == ("aux",)
    assert list(found.layers) == ["fc1", "fc2"]


def test_cast_like_takes_only_the_type() -> None:
    """A scale that takes its type from the weight is not mixed with the weight."""
    weight = sparse_array(4, 9, 5)
    stored: dict[str, NDArray[Any]] = {"fc.weight": weight, "two": np.asarray([2], np.int64)}
    nodes = [
        helper.make_node("CastLike", ["two", "fc.weight"], ["scale"]),
        helper.make_node("Mul", ["fc.weight", "scale"], ["scaled"]),
        helper.make_node("MatMul", ["x", "scaled"], ["h"]),
        helper.make_node("Add", ["h", "scale"], ["y"]),
    ]
    content = model(graph(nodes, {"x": (1, 9)}, ["y"], stored))
    built = build(content, Path("model.onnx"), LoadOptions())[0]
    assert built.nodes[built.outputs[0]].shape == (1, 5)
    assert (masks(content, "kept")["fc"] == (weight != 0)).all()
    assert (masks(content, "active")["fc"] == (weight != 0)).all()
