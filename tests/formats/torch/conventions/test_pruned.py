"""State_dicts of torch.nn.utils.prune."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import spectral_norm

from effsparse_cli.errors import LoadError
from tests.formats.torch.conventions.models import kept, net, prune, resolved


def test_weights_and_masks() -> None:
    model = net()
    prune.random_unstructured(model.conv, "weight", amount=0.7)
    prune.ln_structured(model.head, "weight", amount=4, n=1, dim=0)
    found = resolved(model.state_dict())
    assert set(found.tensors) == set(net().state_dict())
    assert (kept(found, "conv.weight") == (model.conv.weight_mask == 1).numpy()).all()
    assert kept(found, "conv.weight").sum() == 216 - round(0.7 * 216)
    assert kept(found, "head.weight").sum() == 8 * 16
    assert torch.equal(found.tensors["conv.weight"], model.conv.weight_orig)


def test_iterated_and_global_pruning_have_one_mask() -> None:
    model = net()
    both = [(model.conv, "weight"), (model.head, "weight")]
    prune.global_unstructured(both, prune.L1Unstructured, amount=100)
    prune.l1_unstructured(model.head, "weight", amount=50)
    found = resolved(model.state_dict())
    assert (kept(found, "head.weight") == (model.head.weight != 0).numpy()).all()
    assert sum(kept(found, f"{name}.weight").sum() for name in ("conv", "head")) == 216 + 192 - 150


def test_masked_bias() -> None:
    model = net()
    prune.random_unstructured(model.head, "bias", amount=5)
    found = resolved(model.state_dict())
    assert torch.equal(found.tensors["head.bias"], model.head.bias)
    assert int((found.tensors["head.bias"] == 0).sum()) == 5
    assert "head.bias" not in found.masks


def test_names_of_the_module_itself_stay() -> None:
    model = net()
    prune.random_unstructured(model.conv, "weight", amount=0.5)
    prune.random_unstructured(model.head, "weight", amount=0.5)
    wanted = {"conv.weight_orig", "conv.weight_mask", "head.weight"}
    found = resolved(model.state_dict(), wanted=wanted)
    assert wanted <= set(found.tensors)
    assert set(found.masks) == {"head.weight"}


def test_missing_mask() -> None:
    model = net()
    prune.random_unstructured(model.head, "weight", amount=0.5)
    state = model.state_dict()
    del state["head.weight_mask"]
    with pytest.raises(LoadError, match=r"head\.weight_orig has no mask in this file.*--masks"):
        resolved(state)
    assert "head.weight" in resolved(state, external_masks=True).tensors
    assert "head.weight_orig" in resolved(state, wanted=["head.weight_orig"]).tensors


def test_spectral_norm_is_not_a_mask() -> None:
    model = nn.Sequential(spectral_norm(nn.Linear(4, 4)))
    state = model.state_dict()
    found = resolved(state)
    assert set(found.tensors) == set(state)
    assert not found.masks


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(16, 12), r'head\.weight_mask" has shape 16x12, but its weight head\.weight_orig has shape 12x16'),
        (torch.full((12, 16), 0.5), r"is not binary: its values range from 0\.5 to 0\.5"),
        (torch.full((12, 16), float("nan")), "contains NaN"),
        (torch.full((12, 16), -1), "range from -1 to -1"),
    ],
)
def test_invalid_masks(mask: torch.Tensor, message: str) -> None:
    model = net()
    prune.random_unstructured(model.head, "weight", amount=0.5)
    with pytest.raises(LoadError, match=message):
        resolved({**model.state_dict(), "head.weight_mask": mask})


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_mask_dtypes(dtype: torch.dtype) -> None:
    model = net()
    prune.random_unstructured(model.head, "weight", amount=0.5)
    state = model.state_dict()
    state["head.weight_mask"] = state["head.weight_mask"].to(dtype)
    assert kept(resolved(state), "head.weight").sum() == 96


def test_duplicate_weight() -> None:
    model = net()
    prune.random_unstructured(model.head, "weight", amount=0.5)
    with pytest.raises(LoadError, match=r"contains head\.weight twice: under that name and as head\.weight_orig"):
        resolved({**model.state_dict(), "head.weight": torch.ones(12, 16)})
