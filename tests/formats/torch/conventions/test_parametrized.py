"""Sparsifiers of torch.ao and torchao, and parametrizations that are not masks."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from effsparse_cli.errors import LoadError
from tests.formats.torch.conventions.models import kept, net, resolved

LIBRARIES = {"torch.ao": "torch.ao.pruning", "torchao": "torchao.prototype.sparsity"}


def sparsified(library: str) -> tuple[Any, Any]:
    model = net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparsity = importlib.import_module(LIBRARIES[library])
        sparsifier = sparsity.WeightNormSparsifier(sparsity_level=1.0, sparse_block_shape=(1, 4), zeros_per_block=2)
        sparsifier.prepare(model, [{"tensor_fqn": "head.weight"}])
        sparsifier.step()
    return model, sparsifier


def test_torchao_mask_in_state_dict() -> None:
    model, _ = sparsified("torchao")
    state = model.state_dict()
    assert "head.parametrizations.weight.0.mask" in state
    found = resolved(state)
    assert set(found.tensors) == set(net().state_dict())
    assert (kept(found, "head.weight") == (model.head.weight != 0).numpy()).all()
    assert kept(found, "head.weight").sum() == 12 * 16 // 2


def test_torch_ao_mask_in_sparsifier() -> None:
    model, sparsifier = sparsified("torch.ao")
    state = model.state_dict()
    with pytest.raises(LoadError, match=r"head\.parametrizations\.weight\.original has no mask.*squash_mask"):
        resolved(state)
    masks = {f"sparsifier.state.{name}.mask": each["mask"] for name, each in sparsifier.state_dict()["state"].items()}
    found = resolved({**state, **masks})
    assert set(found.tensors) == set(net().state_dict())
    assert (kept(found, "head.weight") == (model.head.weight != 0).numpy()).all()
    assert kept(found, "head.weight").sum() == 96
    assert "head.weight" in resolved(state, external_masks=True).tensors


def test_squashed_mask() -> None:
    model, sparsifier = sparsified("torch.ao")
    sparsifier.squash_mask()
    assert kept(resolved(model.state_dict()), "head.weight").sum() == 96


def test_torchao_mask_per_output() -> None:
    plain: Any = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))
    names = set(plain.state_dict())
    pruner = importlib.import_module("torchao.prototype.sparsity.pruner").SaliencyPruner({})
    pruner.prepare(plain, [{"tensor_fqn": "0.weight", "sparsity_level": 0.5}])
    pruner.enable_mask_update = True
    pruner.step()
    mask = pruner.state_dict()["state"]["0.weight"]["mask"]
    assert mask.shape == (12,)
    found = resolved({**plain.state_dict(), "state.0.weight.mask": mask})
    assert set(found.tensors) == names
    assert kept(found, "0.weight").sum() == 6 * 8
    assert (kept(found, "0.weight") == (plain[0].weight != 0).numpy()).all()


@pytest.mark.parametrize(
    "wrap",
    [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal, nn.utils.weight_norm],
)
def test_other_parametrizations_stay(wrap: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(wrap(nn.Linear(4, 4)))
    state = model.state_dict()
    found = resolved(state)
    assert set(found.tensors) == set(state)
    assert not found.masks


def test_parametrization_of_the_module_itself() -> None:
    class Symmetric(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x.T

    model = nn.Sequential(nn.Linear(4, 4))
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    state = model.state_dict()
    assert set(resolved(state, wanted=state).tensors) == set(state)
    with pytest.raises(LoadError, match="--arch"):
        resolved(state)
