"""Which weights count as kept: zeros under masks, values close to zero, and notes about masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from effsparse_cli.errors import UsageError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.masks.kept import apply, is_zero
from effsparse_cli.formats.torch import from_module
from tests.checks.models import dense, write_mlp
from tests.formats.masks.files import MASKS, RANDOM, Array, as_npz, kept, notes
from tests.formats.torch.conventions.models import prune


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A dense model: fc1 8 -> 6, fc2 6 -> 4."""
    return write_mlp(tmp_path / "model.onnx", dense(8, 6, 4))


def test_zeros_under_mask(tmp_path: Path) -> None:
    weights = dense(8, 6, 4)
    weights["fc1"][0, :3] = 0
    masks = {"fc1": np.ones((6, 8), bool)}
    masks["fc1"][0, 0] = masks["fc1"][5] = False
    model = write_mlp(tmp_path / "m.onnx", weights, masks)
    assert kept(model)["fc1"].sum() == masks["fc1"].sum()
    assert "2 weights that a mask keeps are zero: --zeros-are-pruned counts them as pruned" in notes(model)
    assert kept(model, zeros_are_pruned=True)["fc1"].sum() == masks["fc1"].sum() - 2
    assert "2 weights that a mask keeps are zero: counted as pruned" in notes(model, zeros_are_pruned=True)


def test_pruned_module(tmp_path: Path) -> None:
    """torch.nn.utils.prune keeps masked values in weight_orig: that is not worth a note."""
    module: Any = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    prune.random_unstructured(module[0], "weight", amount=20)
    with torch.no_grad():
        module[0].weight_orig[module[0].weight_mask == 1] *= torch.tensor([0.0] * 5 + [1.0] * 23)
    torch.save(module, tmp_path / "m.pt")
    found = kept(tmp_path / "m.pt")
    assert found["0"].sum() == 28
    found_notes = notes(tmp_path / "m.pt")
    assert "5 weights that a mask keeps are zero" in found_notes
    assert "never applied" not in found_notes
    assert kept(tmp_path / "m.pt", zeros_are_pruned=True)["0"].sum() == 23


def test_masks_that_prune_nothing(model: Path, tmp_path: Path) -> None:
    ones = {name: np.ones_like(mask) for name, mask in MASKS.items()}
    assert "the masks prune nothing" in notes(model, masks=as_npz(ones, tmp_path / "ones.npz"))
    assert "the masks prune nothing" not in notes(model, masks=as_npz(MASKS, tmp_path / "some.npz"))
    assert "the masks prune nothing" not in notes(model)


def test_masks_that_were_never_applied(tmp_path: Path) -> None:
    file = as_npz(MASKS, tmp_path / "m.npz")
    hidden = sum(int((~mask).sum()) for mask in MASKS.values())
    plain = write_mlp(tmp_path / "plain.onnx", dense(8, 6, 4))
    assert f"never applied to this model: {hidden} masked weights" in notes(plain, masks=file)
    applied = write_mlp(tmp_path / "applied.onnx", {name: mask.astype(np.float32) for name, mask in MASKS.items()})
    assert "never applied" not in notes(applied, masks=file)


def test_inverted_masks(tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", {name: mask.astype(np.float32) for name, mask in MASKS.items()})
    file = as_npz({name: ~mask for name, mask in MASKS.items()}, tmp_path / "m.npz")
    found_notes = notes(model, masks=file)
    assert "masks that look inverted, because they keep only zeros: fc1, fc2" in found_notes
    assert "never applied" not in found_notes


def test_near_zeros(tmp_path: Path) -> None:
    weights = {"fc1": RANDOM.normal(size=(6, 8)).astype(np.float32)}
    weights["fc1"][0] = 0
    weights["fc1"][1, :2] = np.nan
    model = write_mlp(tmp_path / "m.onnx", weights)
    expected = ~(np.abs(weights["fc1"]) <= 0.5)
    assert (kept(model, zero_tol=0.5)["fc1"] == expected).all()
    assert kept(model)["fc1"].sum() == 40
    assert kept(model, zero_tol=0.0)["fc1"].sum() == 40


def test_near_zeros_under_mask_are_pruned_like_zeros(tmp_path: Path) -> None:
    weights = dense(8, 6)
    weights["fc1"][0] = 1e-3
    model = write_mlp(tmp_path / "m.onnx", weights, {"fc1": np.ones((6, 8), bool)})
    assert kept(model, zero_tol=1e-2)["fc1"].all()
    assert "8 weights that a mask keeps are zero" in notes(model, zero_tol=1e-2)
    assert kept(model, zero_tol=1e-2, zeros_are_pruned=True)["fc1"].sum() == 40


def quantised(path: Path, mask: Array | None = None) -> Path:
    """Write a model with zero point 3 and scale 0.1: a stored 3 is zero, 2 and 4 have magnitude 0.1."""
    stored = np.array([[3, 4, 2, 0, 13, -128, 127, 3]], np.int8)
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["dense"])]
    masked = [] if mask is None else [numpy_helper.from_array(mask.astype(np.float32), "mask")]
    nodes += [helper.make_node("Mul", ["dense", "mask"], ["masked"]) for _ in masked]
    nodes += [helper.make_node("Gemm", ["x", "masked" if masked else "dense"], ["y"], name="fc", transB=1)]
    constants = [
        *masked,
        numpy_helper.from_array(stored, "w"),
        numpy_helper.from_array(np.array(0.1, np.float32), "scale"),
        numpy_helper.from_array(np.array(3, np.int8), "zero"),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k]) for n, k in (("x", 8), ("y", 1)))
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_quantised_weights_are_compared_as_real_numbers(tmp_path: Path) -> None:
    model = quantised(tmp_path / "q.onnx")
    (exact,) = kept(model).values()
    assert exact.sum() == 6
    (with_tolerance,) = kept(model, zero_tol=0.15).values()
    assert with_tolerance.tolist() == [[False, False, False, True, True, True, True, False]]


def test_quantised_weights_under_mask(tmp_path: Path) -> None:
    model = quantised(tmp_path / "q.onnx", np.array([[1, 1, 0, 1, 1, 1, 0, 1]]))
    assert "2 weights that a mask keeps are zero" in notes(model)
    (found,) = kept(model, zeros_are_pruned=True, zero_tol=0.15).values()
    assert found.tolist() == [[False, False, False, True, True, True, False, False]]


def test_zero_tol_ignores_computed_weights(tmp_path: Path) -> None:
    class Shifted(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight + 1

    module: Any = nn.Sequential(nn.Linear(4, 4))
    nn.init.zeros_(module[0].weight)
    nn.utils.parametrize.register_parametrization(module[0], "weight", Shifted())
    graph = from_module(module, (torch.zeros(1, 4),), None, LoadOptions())
    (layer,) = apply(graph, LoadOptions(zero_tol=0.1)).layers.values()
    assert layer.kept().all()
    assert not layer.masked


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf")])
def test_invalid_tolerances(tolerance: float, model: Path) -> None:
    with pytest.raises(UsageError, match="--zero-tol"):
        load(model, LoadOptions(zero_tol=tolerance))


def test_tolerance_is_not_rounded_up() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        just = np.nextafter(dtype(0.1), dtype(1))
        assert is_zero(np.array([dtype(0.1), just]), float(dtype(0.1))).tolist() == [True, False]
        below = float(np.nextafter(np.float64(dtype(0.1)), 0))
        assert not is_zero(np.array([dtype(0.1)]), below).any()
    assert is_zero(np.array([-128, 127, 0, 1], np.int8), 1.0).tolist() == [False, False, True, True]
    assert is_zero(np.array([-0.0, 5e-324, np.nan]), 0.0).tolist() == [True, False, False]
