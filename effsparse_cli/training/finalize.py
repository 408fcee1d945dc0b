"""Turn masks of a live module into plain dense parameters."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from effsparse_cli.formats.torch.conventions.tensors import fits, is_binary
from effsparse_cli.training.hold import release_layers

Model = TypeVar("Model", bound=nn.Module)


def finalize(model: Model) -> Model:
    """Turn the masks of a live module into zeros of plain dense parameters, in place, and return it.

    That concerns masks of torch.nn.utils.prune, parametrizations that are masks, and held masks, which are released.
    Outputs do not change, and parameters stay the same objects, so optimizers keep working. Other parametrizations,
    and masks that the module's own code multiplies by, are left as they are.
    """
    release_layers(model)
    for module in list(model.modules()):
        for hook in list(module._forward_pre_hooks.values()):
            if isinstance(hook, prune.BasePruningMethod):
                prune.remove(module, hook._tensor_name)  # type: ignore[no-untyped-call]
        for name in list(module.parametrizations) if parametrize.is_parametrized(module) else ():  # type: ignore[arg-type]
            if _is_masked(module, name):
                parametrize.remove_parametrizations(module, name, leave_parametrized=True)
    return model


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
