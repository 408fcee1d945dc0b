"""The parameters of a live module. Each is found through its layer and its plain name, so that it is found again after
masks were added or removed, a state_dict was loaded, or the model was wrapped."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.conventions import TORCH_PRUNE
from effsparse_cli.formats.masks.live import find_live_parameter, find_mask, refresh_pruned
from effsparse_cli.formats.torch.tracing.trace import file_names, stored_tensors

Place = tuple[nn.Module, str]
"""A layer and the plain name of a parameter in it."""


@dataclass(frozen=True)
class LiveParameter:
    """A parameter of a module. `name` is that in a plain state_dict; `places` are the layers that share it."""

    name: str
    tensor: nn.Parameter
    places: list[Place]


def list_parameters(model: nn.Module) -> dict[str, LiveParameter]:
    """Return the parameters by their names in the state_dict. A shared parameter has several names."""
    names, modules = file_names(model), dict(model.named_modules(remove_duplicate=False))
    by_id: dict[int, LiveParameter] = {}
    by_name: dict[str, LiveParameter] = {}
    for path, module in modules.items():
        for own, tensor in module._parameters.items():
            if tensor is not None:
                stored = f"{path}.{own}".lstrip(".")
                plain = find_live_parameter(stored) or stored
                layer, _, name = plain.rpartition(".")
                place = (modules[layer], name) if find_tensor(modules[layer], name) is tensor else (module, own)
                found = by_id.setdefault(id(tensor), LiveParameter(without_wrappers(plain), tensor, []))
                found.places.append(place)
                by_name[without_wrappers(names.get(stored, stored))] = found
    return by_name


def find_tensor(layer: nn.Module, name: str) -> torch.Tensor | None:
    """Return a parameter of a layer, also if torch.nn.utils.prune or a parametrization stores it under another name."""
    for stored in (name, TORCH_PRUNE.weight_name(name)):
        if layer._parameters.get(stored) is not None:
            return layer._parameters[stored]
    if parametrize.is_parametrized(layer, name):
        return getattr(layer.parametrizations[name], "original", None)  # type: ignore[index]
    return None


def without_wrappers(name: str) -> str:
    """Return a name without what torch.compile adds to it, for the whole model or a part of it."""
    return name.replace("_orig_mod.", "")


def find_stored_mask(layer: nn.Module, tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the mask that a layer stores for one of its parameters."""
    tensors = stored_tensors(layer)
    mask = next((find_mask(name, tensors) for name, each in tensors.items() if each is tensor), None)
    return None if mask is None else tensors[mask]


@torch.no_grad()
def zero_pruned(place: Place, pruned: torch.Tensor) -> None:
    """Set pruned weights and their gradients to zero.

    A mask that the layer stores is replaced. Weights that only the old one pruned become trainable zeros: the values
    that it hid do not return.
    """
    layer, name = place
    tensor = find_tensor(layer, name)
    if tensor is None:
        return
    mask = find_stored_mask(layer, tensor)
    if mask is not None:
        tensor.masked_fill_(mask == 0, 0)
        mask.copy_(~pruned)
    tensor.masked_fill_(pruned, 0)
    if tensor.grad is not None:
        tensor.grad = zero_gradient(tensor.grad, pruned)
    refresh_pruned(layer)


def zero_gradient(gradient: torch.Tensor, pruned: torch.Tensor) -> torch.Tensor:
    # masked_fill, because infinity times zero is NaN. It does not exist for the sparse gradients of embeddings.
    return gradient * ~pruned if gradient.is_sparse else gradient.masked_fill(pruned, 0)


def check_changeable(parameter: LiveParameter) -> None:
    """Refuse parameters whose elements cannot be set to zero in place."""
    name, tensor = parameter.name, parameter.tensor
    if is_lazy(tensor):
        raise UsageError(f"{name} has no shape yet: run the model once before applying masks")
    if tensor.is_meta:
        raise UsageError(f"{name} is on the meta device and has no values: load them before applying masks")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UsageError(f"{name} is sparse or quantized: masks need a dense parameter of numbers")
    if hasattr(tensor, "placements"):
        raise UsageError(f"{name} is sharded (DTensor): apply masks before fully_shard, and hold them without it")
