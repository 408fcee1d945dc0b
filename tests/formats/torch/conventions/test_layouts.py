"""Sparse layouts and quantised types as torch makes them, and forged ones."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from effsparse_cli.errors import LoadError
from tests.formats.torch.conventions.models import a_mask, kept, net, resolved

DENSE = torch.randn(12, 16, generator=torch.Generator().manual_seed(3)) * a_mask(12, 16)
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coo": lambda t: t.to_sparse(),
    "csr": lambda t: t.to_sparse_csr(),
    "csc": lambda t: t.to_sparse_csc(),
    "bsr": lambda t: t.to_sparse_bsr((4, 4)),
    "bsc": lambda t: t.to_sparse_bsc((2, 4)),
}


def coo(places: list[list[int]], values: list[float], shape: tuple[int, ...], forged: bool = False) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor(places), torch.tensor(values), shape, check_invariants=not forged)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sparse_layouts(layout: str, dtype: torch.dtype) -> None:
    sparse = LAYOUTS[layout](DENSE.to(dtype))
    found = resolved({"head.weight": sparse})
    assert found.tensors["head.weight"].is_meta
    assert (kept(found, "head.weight") == (DENSE != 0).numpy()).all()
    assert torch.equal(found.values["head.weight"](), DENSE.to(dtype))


def test_explicit_zeros_and_duplicate_indices() -> None:
    twice = coo([[0, 0, 1, 2], [0, 0, 1, 2]], [1.0, -1.0, 2.0, 0.0], (3, 3))
    assert kept(resolved({"w": twice}), "w").tolist() == [[False] * 3, [False, True, False], [False] * 3]
    csr = torch.sparse_csr_tensor([0, 1, 2], [0, 1], [0.0, 3.0], (2, 2), check_invariants=True)
    assert kept(resolved({"w": csr}), "w").tolist() == [[False, False], [False, True]]


def test_flattened_convolution() -> None:
    model = net()
    mask = a_mask(8, 3, 3, 3)
    weight = (model.conv.weight * mask).detach()
    state = {name: tensor for name, tensor in model.state_dict().items() if name != "conv.weight"}
    state["conv.sparse_weight"] = weight.reshape(8, -1).to_sparse()
    found = resolved(state, wanted=net().state_dict())
    assert (kept(found, "conv.weight") == mask.numpy()).all()
    assert torch.equal(found.values["conv.weight"](), weight)
    assert kept(resolved(state), "conv.weight").shape == (8, 27)
    with pytest.raises(
        LoadError, match=r"conv\.sparse_weight has shape 8x27, which does not fit conv\.weight of shape 8x3x2x2"
    ):
        resolved(state, wanted={"conv.weight": torch.empty(8, 3, 2, 2)})


def test_sparse_tensor_larger_than_memory() -> None:
    huge = coo([[0], [0]], [1.0], (10**9, 10**9))
    with pytest.raises(LoadError, match="would have 1,000,000,000,000,000,000 elements"):
        resolved({"w": huge})


def test_forged_indices() -> None:
    forged = {
        "csr": torch.sparse_csr_tensor([0, 1, 2], [0, 10**6], [1.0, 1.0], (2, 2), check_invariants=False),
        "csc": torch.sparse_csc_tensor([0, 1, 2], [0, 10**6], [1.0, 1.0], (2, 2), check_invariants=False),
        "coo": coo([[0, 10**6], [0, 0]], [1.0, 1.0], (2, 2), forged=True),
        "negative": torch.sparse_csr_tensor([0, 1, 2], [0, -5], [1.0, 1.0], (2, 2), check_invariants=False),
        "decreasing": torch.sparse_csr_tensor([0, 3, 2], [0, 1], [1.0, 1.0], (2, 2), check_invariants=False),
    }
    for name, tensor in forged.items():
        found = resolved({name: tensor})
        with pytest.raises(LoadError, match=f"{name} is a damaged sparse tensor"):
            found.values[name]()


def test_quantised_zero_is_the_zero_point() -> None:
    weight = torch.quantize_per_tensor(DENSE, scale=0.01, zero_point=3, dtype=torch.qint8)
    assert int((weight.int_repr() == 0).sum()) == 0
    found = resolved({"head.weight": weight})
    expected = weight.int_repr() != 3
    assert (kept(found, "head.weight") == expected.numpy()).all()
    assert found.tensors["head.weight"].dtype == torch.float32


def test_quantised_modules() -> None:
    quantization: Any = importlib.import_module("torch.ao.quantization")
    model: Any = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4)).eval()
    with torch.no_grad():
        model[0].weight.mul_(a_mask(12, 16))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    state: dict[str, torch.Tensor] = {}
    for name, value in quantised.state_dict().items():
        parts = {f"{name}.{i}": part for i, part in enumerate(value)} if isinstance(value, tuple) else {name: value}
        state |= {key: part for key, part in parts.items() if isinstance(part, torch.Tensor)}
    found = resolved(state)
    assert set(found.tensors) == set(model.state_dict())
    weight = quantised[0].weight()
    assert (kept(found, "0.weight") == (weight.int_repr() != weight.q_zero_point()).numpy()).all()
    assert kept(found, "0.weight").sum() <= a_mask(12, 16).sum()
    assert torch.equal(found.tensors["0.bias"], model[0].bias)
