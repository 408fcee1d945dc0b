"""Changes to the tensors of a PyTorch model: what a round of repair says enters, tensors by stored name leave, and
biases that modules did not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from effsparse_cli.folding.decide import Home
from effsparse_cli.folding.rounds import Round
from effsparse_cli.folding.uniform import Floats
from effsparse_cli.formats.masks.live import find_mask
from effsparse_cli.formats.torch.stored import Stored


def changed(tensors: Mapping[str, torch.Tensor], changes: Round, stored: Stored) -> dict[str, torch.Tensor]:
    """What each tensor that a round concerns is to hold. A mask beside a weight says the same as the weight."""
    new: dict[str, torch.Tensor] = {}
    names = {stored.label(name): name for name, (owner, _) in reversed(stored.owners.items()) if owner == name}
    for layer, kept in changes.kept.items():
        name, mask = names[layer], torch.from_numpy(kept.copy())
        tensor = tensors[name].detach()
        new[name] = torch.where(mask.to(tensor.device), tensor, torch.zeros_like(tensor))
        beside = find_mask(name, tensors)
        if beside is not None:
            new[beside] = mask.to(tensors[beside].dtype)
    for home, amount in changes.amounts:
        if not home.new:
            flat = new.get(home.name, tensors[home.name].detach()).double().reshape(-1).clone()
            flat[torch.from_numpy(home.index)] += home.sign * torch.from_numpy(np.ascontiguousarray(amount)).to(flat)
            new[home.name] = flat.reshape(tensors[home.name].shape)
    for name, where in changes.zeroed.items():
        value = new.get(name, tensors[name].detach())
        new[name] = torch.where(torch.from_numpy(where).to(value.device), torch.zeros_like(value), value)
    return new


def add_biases(model: nn.Module, biases: Sequence[tuple[Home, Floats]]) -> list[str]:
    """In place: each module's bias was None."""
    for home, amount in biases:
        path, _, name = home.name.rpartition(".")
        module = model.get_submodule(path)
        weight = next(module.parameters(recurse=False))
        values = torch.from_numpy(np.ascontiguousarray(amount)).to(dtype=weight.dtype, device=weight.device)
        old = getattr(module, name)
        values = values if old is None else values + old.detach()
        setattr(module, name, nn.Parameter(values, requires_grad=weight.requires_grad))
    return [home.name for home, _ in biases]


def remove_biases(model: nn.Module, names: Sequence[str]) -> None:
    for name in names:
        path, _, own = name.rpartition(".")
        setattr(model.get_submodule(path), own, None)
