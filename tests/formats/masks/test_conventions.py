"""The table of mask conventions: each row finds the parameter of the names that it makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.formats.masks.conventions import CONVENTIONS, Convention, find_parameters, is_mask_name
from effsparse_cli.formats.masks.live import find_live_parameter, find_mask, refresh_pruned
from effsparse_cli.formats.torch.tracing.trace import stored_tensors


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda each: f"{each.library}: {each.mask}")
@pytest.mark.parametrize("parameter", ["fc.weight", "net.0.fc.weight"])
def test_names_of_each_row(convention: Convention, parameter: str) -> None:
    expected = f"model.{parameter}" if "model." in convention.parameter else parameter
    mask = convention.mask_name(parameter)
    assert convention.find_parameters(mask)[0] == expected
    assert expected in find_parameters(mask)
    assert is_mask_name(mask)
    if convention.renames_weight:
        assert convention.find_parameter(convention.weight_name(parameter)) == parameter


def test_nested_masks_belong_to_the_nearest_layer() -> None:
    (row, *_) = [each for each in CONVENTIONS if each.nested]
    assert row.find_parameters("a.b.pre_ops.0.binary_mask")[:2] == ["a.b.pre_ops.0.weight", "a.b.pre_ops.weight"]
    assert row.find_parameters("a.b.pre_ops.0.binary_mask")[-1] == "weight"


def test_masks_of_live_modules() -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    assert find_mask("0.weight_orig", stored_tensors(model)) == "0.weight_mask"
    assert find_mask("0.bias", stored_tensors(model)) is None
    assert find_live_parameter("0.weight_orig") == "0.weight"
    assert find_live_parameter("0.module.weight") is None
    tensors = {
        "fc.parametrizations.weight.original": torch.ones(2, 2),
        "fc.parametrizations.weight.0.mask": torch.ones(2, 2),
    }
    assert find_mask("fc.parametrizations.weight.original", tensors) == "fc.parametrizations.weight.0.mask"


@pytest.mark.parametrize("in_place", [True, False])
def test_refresh_pruned(in_place: bool) -> None:
    model: Any = nn.Sequential(nn.Linear(3, 2))
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    before = model[0].weight
    model[0].weight_mask.zero_()
    refresh_pruned(model, in_place=in_place)
    assert not model[0].weight.any()
    assert (model[0].weight is before) == in_place
