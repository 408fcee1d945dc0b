"""Apply the changes of a round to the tensors of a PyTorch model, and add or remove biases of its modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from effsparse_cli.folding.constant_ranges import Floats
from effsparse_cli.folding.decide import BiasSlot
from effsparse_cli.folding.rounds import Round
from effsparse_cli.formats.masks.live import find_mask
from effsparse_cli.formats.torch.stored import StoredTensors


def changed_tensors(
    tensors: Mapping[str, torch.Tensor], changes: Round, stored: StoredTensors
) -> dict[str, torch.Tensor]:
    """Return the new tensors of a round by stored name. The mask of a weight is changed with it."""
    new: dict[str, torch.Tensor] = {}
    names = {stored.label(name): name for name, (owner, _) in reversed(stored.owners.items()) if owner == name}
    for layer, kept in changes.kept.items():
        name, mask = names[layer], torch.from_numpy(kept.copy())
        tensor = tensors[name].detach()
        new[name] = torch.where(mask.to(tensor.device), tensor, torch.zeros_like(tensor))
        stored_mask = find_mask(name, tensors)
        if stored_mask is not None:
            new[stored_mask] = mask.to(tensors[stored_mask].dtype)
    for slot, amount in changes.amounts:
        if not slot.new:
            flat = new.get(slot.name, tensors[slot.name].detach()).double().reshape(-1).clone()
            flat[torch.from_numpy(slot.index)] += slot.sign * torch.from_numpy(np.ascontiguousarray(amount)).to(flat)
            new[slot.name] = flat.reshape(tensors[slot.name].shape)
    for name, where in changes.zeroed.items():
        value = new.get(name, tensors[name].detach())
        new[name] = torch.where(torch.from_numpy(where).to(value.device), torch.zeros_like(value), value)
    return new


def add_biases(model: nn.Module, biases: Sequence[tuple[BiasSlot, Floats]]) -> list[str]:
    """Add biases to modules that have none, in place; return their names."""
    for slot, amount in biases:
        path, _, name = slot.name.rpartition(".")
        module = model.get_submodule(path)
        weight = next(module.parameters(recurse=False))
        values = torch.from_numpy(np.ascontiguousarray(amount)).to(dtype=weight.dtype, device=weight.device)
        old = getattr(module, name)
        values = values if old is None else values + old.detach()
        setattr(module, name, nn.Parameter(values, requires_grad=weight.requires_grad))
    return [slot.name for slot, _ in biases]


def remove_biases(model: nn.Module, names: Sequence[str]) -> None:
    for name in names:
        path, _, own = name.rpartition(".")
        setattr(model.get_submodule(path), own, None)
