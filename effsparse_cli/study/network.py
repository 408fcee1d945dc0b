"""A network in training: its module, its graph, and the masks that decide which weights are kept."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.formats.torch.apply_masks import find_tensors
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools

State = dict[str, Any]
"""Tensors, and what modules of the user's own add to their state."""


class Network:
    """`weights` has the parameter of each layer, `masks` which of its elements are kept. The graph is traced once: it
    reads the weights as they are, and paths depend on the masks alone. Scales that are zero only before training, as
    those of residual branches often are, cut no path."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], device: torch.device) -> None:
        _check_state(module)
        self.module = module.to(device)
        self.device = device
        with without_zeros(module, {}):
            self.graph: Graph = from_module(module, (torch.zeros(2, *shape, device=device),), None, LoadOptions())
            self.layers = tuple(name for name, layer in self.graph.layers.items() if not layer.embedding)
            self._check_layers()
        parameters = dict(module.named_parameters(remove_duplicate=False))
        names = find_tensors(stored_tensors(module), self.layers)
        foreign = [name for name in names.values() if name not in parameters]
        if foreign:
            raise UsageError(f"{foreign[0]} is not a parameter of the model, so it cannot be trained.")
        self.parameters = names
        self.weights: dict[str, nn.Parameter] = {layer: parameters[name] for layer, name in names.items()}
        self.masks = {layer: torch.ones_like(weight, dtype=torch.bool) for layer, weight in self.weights.items()}

    def _check_layers(self) -> None:
        if not self.layers:
            raise UsageError("the model has no layer with weights to prune.")
        mixed = [name for each in self.graph.mixed_weights.values() for name in each.sources if name in self.layers]
        if mixed:
            raise UsageError(
                f"{mixed[0]}: weights are mixed before use (weight or spectral norm, weight standardization), so their "
                "connections cannot be pruned one by one. Use ordinary weights, for example after "
                "torch.nn.utils.parametrize.remove_parametrizations."
            )
        pruned = [name for name in self.layers if not self.graph.layers[name].kept().all()]
        if pruned:
            raise UsageError(
                f"{pruned[0]} is pruned before the study begins: it has a mask, or zeros that are not trained. Return "
                "a dense model, for example after torch.nn.utils.prune.remove."
            )

    def kept(self) -> dict[str, Bools]:
        return {layer: mask.cpu().numpy() for layer, mask in self.masks.items()}

    def measure(self, kept: Mapping[str, Bools] | None = None) -> Analysis:
        """Count the connections that the masks keep, or `kept` instead, and those of them that are active."""
        return analyze_graph(self.graph.with_masks(self.kept() if kept is None else kept))

    @torch.no_grad()
    def apply(self, masks: Mapping[str, Bools | torch.Tensor]) -> None:
        """Replace masks, and set the pruned weights to zero."""
        for layer, mask in masks.items():
            found = torch.from_numpy(mask.copy()) if isinstance(mask, np.ndarray) else mask
            self.masks[layer] = found.to(self.device)
            self.weights[layer].masked_fill_(~self.masks[layer], 0)

    def graph_of(self, scores: Mapping[str, NDArray[np.floating[Any]]]) -> Graph:
        """Return the graph with other numbers for the weights, to rank them by these."""
        layers = {
            name: replace(self.graph.layers[name], values=lambda values=values: values)  # type: ignore[misc]
            for name, values in scores.items()
        }
        return self.graph.with_layers(layers)

    def state(self) -> State:
        """Return a copy of all parameters and buffers."""
        return copy.deepcopy(state_of(self.module))

    def rewind(self, state: State) -> None:
        """Restore parameters and buffers; the masks stay, and what they prune stays zero."""
        load_state(self.module, state)
        self.apply(dict(self.masks))


def state_of(module: nn.Module) -> State:
    """Return the state_dict, with the buffers that it leaves out because they are not persistent."""
    stored = module.state_dict()
    return {**stored, **{name: each for name, each in module.named_buffers() if name not in stored}}


def load_state(module: nn.Module, state: State) -> None:
    stored, buffers = module.state_dict(), dict(module.named_buffers())
    module.load_state_dict({name: each for name, each in state.items() if name in stored})
    for name, each in state.items():
        if name not in stored:
            buffers[name].copy_(each)


def _check_state(module: nn.Module) -> None:
    """Refuse states that a checkpoint could not restore, because reading them would run code."""
    extra = {name: each for name, each in module.state_dict().items() if not torch.is_tensor(each)}
    stored = io.BytesIO()
    try:
        torch.save(extra, stored)
        stored.seek(0)
        torch.load(stored, weights_only=True)
    except Exception as error:
        raise UsageError(
            f"{next(iter(extra))}: get_extra_state returns more than tensors, numbers and strings, which cannot be "
            "read back as data."
        ) from error


@contextmanager
def without_zeros(module: nn.Module, masks: Mapping[nn.Parameter, torch.Tensor]) -> Iterator[None]:
    """Within the block, what training can change is not zero: every parameter that is trained, except where its mask
    prunes it. Biases too: a product, such as a gate, is zero only as long as they are."""
    zeros = []
    for parameter in module.parameters():
        if parameter.requires_grad:
            zero = parameter.detach() == 0
            zeros.append((parameter, zero & masks[parameter] if parameter in masks else zero))
    with torch.no_grad():
        for parameter, zero in zeros:
            parameter.masked_fill_(zero, 1)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, zero in zeros:
                parameter.masked_fill_(zero, 0)
