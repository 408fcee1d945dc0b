"""Train a smaller network in place of a masked one: dead channels are removed, and the weights are mapped back.

With plain SGD and batch norm, whose statistics are those of each channel, every weight that is left is trained as in
the masked network. What belongs to dead channels (biases, norms) stays as it was: it has no effect on the outputs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formatting import plural
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.study.network import Network, without_zeros


@dataclass(frozen=True, eq=False)
class Compacted:
    """`kept` has what is left along each axis of the tensors that are smaller, `masks` the smaller masks, both by
    the names of tensors in the state_dict."""

    module: nn.Module
    kept: Mapping[str, Sequence[Bools]]
    masks: dict[str, torch.Tensor]


@torch.no_grad()
def compact_network(network: Network, shape: tuple[int, ...]) -> Compacted:
    """Return the smaller network. Refuse networks for which training it is not the same."""
    from effsparse_cli.compaction.torch.execute import compact_module

    _check_paths(network)
    example = torch.zeros(2, *shape, device=network.device)
    with without_zeros(network.module, {network.weights[layer]: mask for layer, mask in network.masks.items()}):
        module, done = compact_module(network.module.eval(), (example,), None, LoadOptions())
    full = network.module.state_dict()
    for name, small in _tensors(module).items():
        small.copy_(full[name][_places(done.kept[name])] if name in done.kept else full[name])
    masks = {}
    for layer, name in network.parameters.items():
        mask = network.masks[layer].cpu().numpy()
        smaller = mask[np.ix_(*done.kept[name])] if name in done.kept else mask
        masks[name] = torch.from_numpy(smaller.copy()).to(network.device)
    return Compacted(module.train(), done.kept, masks)


def _check_paths(network: Network) -> None:
    totals = network.measure().totals
    if totals.inactive:
        raise UsageError(
            f"compact training is not exact here: {totals.inactive:,} of {plural(totals.kept, 'kept connection')} are "
            "on no path from input to output, but some may carry a constant. Train without compaction."
        )


def check_draws(module: nn.Module, shape: tuple[int, ...]) -> None:
    """Refuse modules that draw random numbers in training: a smaller one would draw others."""
    module = copy.deepcopy(module).cpu().train()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.get_rng_state()
        module(torch.zeros(2, *shape))
        drawn = not torch.equal(before, torch.get_rng_state())
    if drawn:
        raise UsageError(
            "compact training is not exact here: the model draws random numbers in training, as dropout does, and a "
            "smaller network would draw others. Train without compaction."
        )


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: each for name, each in module.state_dict().items() if torch.is_tensor(each)}


def _places(kept: Sequence[Bools]) -> tuple[torch.Tensor, ...]:
    """Return an index of what is kept along each axis."""
    return torch.meshgrid(*(torch.from_numpy(np.flatnonzero(mask)) for mask in kept), indexing="ij")


@torch.no_grad()
def restore_weights(compacted: Compacted, network: Network) -> None:
    """Write the trained weights, biases and norms back to their places in the network."""
    full = network.module.state_dict()
    for name, small in _tensors(compacted.module).items():
        if name in compacted.kept:
            full[name][_places(compacted.kept[name])] = small.to(full[name].device)
        else:
            full[name].copy_(small)
