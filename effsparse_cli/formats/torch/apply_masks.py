"""Apply masks to a live module: as zeroed weights, or in the form of torch.nn.utils.prune."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.live import find_mask
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.graph.primitives import Bools

Masks = Mapping[str, Bools]
Tensors = Mapping[str, torch.Tensor]


def zero_weights(model: nn.Module, kept: Masks) -> None:
    """Set pruned weights to zero in place. A stored mask of a weight changes with it."""
    tensors = stored_tensors(model)
    with torch.no_grad():
        for name, new in changed_tensors(tensors, kept).items():
            tensors[name].copy_(new)


def add_masks(model: nn.Module, kept: Masks) -> None:
    """Add masks in place as torch.nn.utils.prune does: a hook multiplies `weight_orig` by the buffer `weight_mask`."""
    tensors = stored_tensors(model)
    found = {name: torch.from_numpy(kept[layer].copy()) for layer, name in find_tensors(tensors, kept).items()}
    owners = [
        each for name in found if find_mask(name, tensors) is None for each in _owners(model, tensors[name], name)
    ]
    for name, mask in found.items():
        stored_mask = find_mask(name, tensors)
        if stored_mask is not None:
            with torch.no_grad():
                tensors[stored_mask].copy_(mask)
    for name, module, own in owners:
        prune.custom_from_mask(module, own, found[name])  # type: ignore[no-untyped-call]


def _owners(model: nn.Module, tensor: torch.Tensor, name: str) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield the modules that hold a parameter, and its name there. Raises before anything is changed."""
    for path, module in model.named_modules(remove_duplicate=False):
        for own, parameter in module.named_parameters(recurse=False):
            if parameter is tensor:
                if isinstance(module, nn.RNNBase):
                    raise UsageError(
                        f"{path}.{own} belongs to a recurrent layer, which torch.nn.utils.prune cannot mask. Write "
                        "zeroed weights (without --form prune) or --masks-only"
                    )
                yield name, module, own


def replace_weights(model: nn.Module, kept: Masks, weights: Mapping[str, NDArray[Any]]) -> None:
    """Write new values and masks of layers in place. Masks of torch.nn.utils.prune change with their weights."""
    tensors = stored_tensors(model)
    with torch.no_grad():
        for name, new in new_weights(tensors, weights).items():
            tensors[name].copy_(new)
    zero_weights(model, kept)


FORMS: dict[str, Callable[[nn.Module, Masks], None]] = {"zeros": zero_weights, "prune": add_masks}


def changed_tensors(tensors: Tensors, kept: Masks) -> dict[str, torch.Tensor]:
    """Return by stored name the new value of each tensor that the masks concern."""
    new = {}
    for layer, name in find_tensors(tensors, kept).items():
        tensor, mask = tensors[name].detach(), torch.from_numpy(kept[layer].copy())
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise UsageError(f"{name} is sparse or quantized, which cannot be written. Use --masks-only")
        new[name] = torch.where(mask.to(tensor.device), tensor, torch.zeros((), dtype=tensor.dtype))
        stored_mask = find_mask(name, tensors)
        if stored_mask is not None:
            new[stored_mask] = mask.to(tensors[stored_mask].dtype)
    return new


def new_weights(tensors: Tensors, weights: Mapping[str, NDArray[Any]]) -> dict[str, torch.Tensor]:
    """Return new values of layers by stored name, in the type that is stored."""
    names = find_tensors(tensors, weights)
    return {name: torch.from_numpy(weights[layer].copy()).to(tensors[name].dtype) for layer, name in names.items()}


def find_tensors(tensors: Tensors, layers: Collection[str]) -> dict[str, str]:
    """Return the stored tensor's name for each layer."""
    stored = StoredTensors(tensors, set())
    names = {stored.label(name): name for name, (owner, _) in reversed(stored.owners.items()) if owner == name}
    absent = [layer for layer in layers if layer not in names]
    if absent:
        raise UsageError(f"the model stores no tensor for {', '.join(absent)}, so its masks cannot be written")
    return {layer: names[layer] for layer in layers}
