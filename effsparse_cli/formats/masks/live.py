"""Masks of modules in memory: find the mask of a stored weight, and refresh weights that pruning hooks compute."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from effsparse_cli.formats.masks.conventions import CONVENTIONS, TORCH_PRUNE


def find_mask(weight: str, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """Return the name of the mask of a stored weight, if there is one of its shape."""
    for convention in CONVENTIONS:
        parameter = convention.find_parameter(weight) if convention.live else None
        mask = convention.mask_name(parameter) if parameter is not None else ""
        if mask in tensors and tensors[mask].shape == tensors[weight].shape:
            return mask
    return None


def find_live_parameter(weight: str) -> str | None:
    """Return the parameter that a weight stands for, if masks have changed its name."""
    names = (each.find_parameter(weight) for each in CONVENTIONS if each.live and each.renames_weight)
    return next((name for name in names if name is not None), None)


def refresh_pruned(model: nn.Module, *, in_place: bool = False) -> None:
    """Recompute the weights that hooks of torch.nn.utils.prune computed earlier, for code that bypasses the hooks.

    With `in_place`, the tensors stay the same objects, as a trace that refers to them needs.
    """
    with torch.no_grad():
        for module in model.modules():
            for name, weight in list(module._parameters.items()):
                parameter = TORCH_PRUNE.find_parameter(name) or ""
                mask = module._buffers.get(TORCH_PRUNE.mask_name(parameter))
                old = vars(module).get(parameter)
                if weight is None or mask is None or not isinstance(old, torch.Tensor):
                    continue
                if in_place:
                    old.data.copy_(weight * mask)
                else:
                    setattr(module, parameter, (weight * mask).detach())
