"""Turn masks that a live module stores into zeros of plain dense parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from effsparse_cli.formats.torch.conventions.tensors import fits, is_binary


def remove_masks(model: nn.Module) -> None:
    """Replace masks of torch.nn.utils.prune, and parametrizations that are masks, by zeros in the parameters.

    Outputs do not change. Other parametrizations, and masks that the module's own code multiplies by, are left as they
    are.
    """
    for module in list(model.modules()):
        for hook in list(module._forward_pre_hooks.values()):
            if isinstance(hook, prune.BasePruningMethod):
                prune.remove(module, hook._tensor_name)  # type: ignore[no-untyped-call]
        for name in list(module.parametrizations) if parametrize.is_parametrized(module) else ():  # type: ignore[arg-type]
            if _is_masked(module, name):
                parametrize.remove_parametrizations(module, name, leave_parametrized=True)


@torch.no_grad()
def _is_masked(module: Any, name: str) -> bool:
    """Return whether masks are all that the parametrizations of a tensor apply to it, judged by the result."""
    steps = module.parametrizations[name]
    original = getattr(steps, "original", None)
    masks = [step._buffers.get("mask") for step in steps]
    if original is None or not all(mask is not None and _fits(mask, original) for mask in masks):
        return False
    expected = original
    for mask in masks:
        expected = expected * mask.reshape(mask.shape + (1,) * (original.ndim - mask.ndim))
    return torch.equal(getattr(module, name).nan_to_num(), expected.nan_to_num())


def _fits(mask: torch.Tensor, original: torch.Tensor) -> bool:
    return fits(tuple(mask.shape), tuple(original.shape), per_output=True) and is_binary(mask)
