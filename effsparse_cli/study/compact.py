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

from effsparse_cli.errors import EffsparseError, UsageError, first_line
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formatting import plural
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.study.data.batches import draws_numbers, generator
from effsparse_cli.study.network import Network, load_state, state_of, without_zeros

TOLERANCE = 1e-3
"""Of the largest output; float32 rounds far less, and what differs by design far more."""


@dataclass(frozen=True, eq=False)
class Compacted:
    """`kept` has what is left along each axis of the tensors that are smaller, `masks` the smaller masks, both by
    the names of tensors in the state_dict."""

    module: nn.Module
    kept: Mapping[str, Sequence[Bools]]
    masks: dict[str, torch.Tensor]


def check_module(module: nn.Module, shape: tuple[int, ...]) -> None:
    """Refuse modules for which training a smaller one is not the same, before anything is trained."""
    if len(list(module.parameters())) < len(list(module.named_parameters(remove_duplicate=False))):
        raise _not_exact("layers of the model share weights")
    module = copy.deepcopy(module).cpu().train()
    if draws_numbers(lambda: module(torch.zeros(2, *shape))):
        raise _not_exact(
            "the model draws random numbers in training, as dropout does, and a smaller network would draw others"
        )


@torch.no_grad()
def compact_network(network: Network, shape: tuple[int, ...]) -> Compacted:
    """Return the smaller network. Refuse networks for which training it is not the same."""
    from effsparse_cli.compaction.torch.execute import compact_module

    totals = network.measure().totals
    if totals.inactive:
        raise _not_exact(
            f"{totals.inactive:,} of {plural(totals.kept, 'kept connection')} are on no path from input to output, but "
            "some may carry a constant"
        )
    example = torch.zeros(2, *shape, device=network.device)
    try:
        with without_zeros(network.module, {network.weights[layer]: mask for layer, mask in network.masks.items()}):
            module, done = compact_module(network.module.eval(), (example,), None, LoadOptions())
    except EffsparseError as error:
        raise UsageError(f"compact training is not possible for this model: {first_line(error)}") from error
    load_state(module, {name: _smaller(each, done.kept.get(name)) for name, each in network.state().items()})
    masks = {name: _smaller(network.masks[layer], done.kept.get(name)) for layer, name in network.parameters.items()}
    _check_training(network, module, shape)
    return Compacted(module.train(), done.kept, masks)


def restore_weights(compacted: Compacted, network: Network) -> None:
    """Write the trained weights, biases and norms back to their places in the network."""
    full = network.state()
    for name, small in state_of(compacted.module).items():
        if name in compacted.kept:
            full[name][_places(compacted.kept[name])] = small
        else:
            full[name] = small
    load_state(network.module, full)


def _check_training(network: Network, small: nn.Module, shape: tuple[int, ...]) -> None:
    """Compare both networks in training, which may be another computation than the one that was traced."""
    example = torch.randn(4, *shape, generator=generator("compact")).to(network.device)
    try:
        expected, found = (copy.deepcopy(each).train()(example) for each in (network.module, small))
    except RuntimeError as error:
        raise _not_exact(f"the smaller network does not run in training ({first_line(error)})") from error
    if not torch.allclose(expected, found, rtol=0, atol=TOLERANCE * float(expected.abs().max())):
        raise _not_exact("in training, the smaller network computes something else")


def _not_exact(reason: str) -> UsageError:
    return UsageError(f"compact training is not exact here: {reason}. Train without compaction.")


def _smaller(value: torch.Tensor, kept: Sequence[Bools] | None) -> torch.Tensor:
    return value if kept is None else value[_places(kept)]


def _places(kept: Sequence[Bools]) -> tuple[torch.Tensor, ...]:
    """Return an index of what is kept along each axis."""
    return torch.meshgrid(*(torch.from_numpy(np.flatnonzero(mask)) for mask in kept), indexing="ij")
