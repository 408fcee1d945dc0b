"""Masks stored next to weights, as each library names them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from effsparse_cli.errors import LoadError
from tests.formats.torch.conventions.models import a_mask, kept, net, resolved

NAMES = {
    "SynFlow": "head.weight_mask",
    "OpenLTH": "mask_head___weight",
    "Apex ASP": "head.__weight_mma_mask",
    "NNCF": "head.pre_ops.0.op.binary_mask",
    "DeepSpeed": "head.sparse_pruning_mask",
    "custom": "head.mask",
}
MASK = a_mask(12, 16)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks_by_name(name: str, dtype: torch.dtype) -> None:
    state = net().state_dict()
    found = resolved({**state, name: MASK.to(dtype)})
    assert set(found.tensors) == set(state)
    assert (kept(found, "head.weight") == MASK.numpy()).all()
    assert kept(found, "conv.weight").all()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_masks_of_the_module_itself_stay(name: str) -> None:
    state = {**net().state_dict(), name: MASK}
    found = resolved(state, wanted=set(state))
    assert set(found.tensors) == set(state)
    assert not found.masks


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_invalid_mask(name: str) -> None:
    """An invalid mask is an error if only masks have such a name, and another tensor otherwise."""
    state = net().state_dict()
    certain = name not in (NAMES["custom"], NAMES["NNCF"])
    for odd in (MASK.T.contiguous(), torch.rand(12, 16)):
        if certain:
            with pytest.raises(LoadError, match=r"head\.weight"):
                resolved({**state, name: odd})
        else:
            found = resolved({**state, name: odd})
            assert not found.masks
            assert name in found.tensors


@pytest.mark.parametrize("name", ["tail.weight_mask", "mask_tail___weight", "tail.__weight_mma_mask", "gone.bias_mask"])
def test_mask_without_weight(name: str) -> None:
    with pytest.raises(LoadError, match=f'mask "{name}" has no weight: the file does not contain (tail|gone)'):
        resolved({**net().state_dict(), name: MASK})


def test_other_tensors_named_mask() -> None:
    others = {"attn_mask": torch.zeros(4, 4), "block.attn_mask": torch.ones(4, 4), "head.score_mask": torch.rand(2, 2)}
    found = resolved({**net().state_dict(), **others})
    assert others.keys() <= found.tensors.keys()
    assert not found.masks


def test_openlth_model_in_a_submodule() -> None:
    state = {f"model.{name}": tensor for name, tensor in net().state_dict().items()}
    found = resolved({**state, "mask_head___weight": MASK.float()})
    assert set(found.tensors) == set(state)
    assert kept(found, "model.head.weight").sum() == MASK.sum()


def test_recurrent_and_fused_weights() -> None:
    state = torch.nn.LSTM(4, 3, bidirectional=True).state_dict()
    mask = a_mask(12, 4)
    found = resolved({**state, "weight_ih_l0_reverse_mask": mask})
    assert set(found.tensors) == set(state)
    assert (kept(found, "weight_ih_l0_reverse") == mask.numpy()).all()


def test_masks_per_output_and_per_weight_combine() -> None:
    state = net().state_dict()
    rows = a_mask(12, 1, density=0.5)
    found = resolved({**state, "head.sparse_pruning_mask": MASK, "head.row_pruning_mask": rows.float()})
    assert (kept(found, "head.weight") == (MASK & rows).numpy()).all()
    assert torch.equal(found.tensors["head.bias"] != 0, rows.reshape(-1))
    assert set(found.tensors) == set(state)
    filters = a_mask(8, density=0.5)
    by_filter = resolved({**state, "conv.pre_ops.0.op.binary_filter_pruning_mask": filters})
    assert (kept(by_filter, "conv.weight") == np.broadcast_to(filters.numpy()[:, None, None, None], (8, 3, 3, 3))).all()


def test_note_on_masks_that_were_never_applied() -> None:
    state = net().state_dict()
    hidden = int((~MASK).sum())
    assert any(
        f"never applied to its weights: {hidden} masked weights" in note
        for note in resolved({**state, "head.mask": MASK}).notes
    )
    applied = {**state, "head.weight": state["head.weight"] * MASK, "head.mask": MASK}
    assert not resolved(applied).notes
