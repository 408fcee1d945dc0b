"""Gradients of a live torch module over batches of data, for the scores that need them. The module is not changed:
weights, buffers and random numbers are those of copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.plan import Gradients, Slopes

Batch = tuple[Any, Any]
Loss = Callable[[Any, Any], torch.Tensor]
TEMPERATURE = 200.0
"""GraSP divides the outputs by it, so that the loss is flat where it looks."""


def gradients_of(
    model: nn.Module, parameters: Mapping[str, str], batches: Sequence[Batch], loss: Loss, seed: int = 0
) -> Gradients:
    """`parameters` has the name of each layer's parameter. Several batches count by their mean loss. The module runs
    as in training: batch norm by the batch, dropout by the seed."""
    stored = dict(model.named_parameters())

    def masked(masks: Mapping[str, Bools]) -> dict[str, torch.Tensor]:
        leaves = {}
        for layer, name in parameters.items():
            weight = stored[name].detach()
            kept = torch.from_numpy(masks[layer].copy()).to(weight.device) if layer in masks else None
            leaves[layer] = (weight.clone() if kept is None else weight * kept).requires_grad_()
        return leaves

    def outputs(leaves: Mapping[str, torch.Tensor], x: Any) -> Any:
        buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
        given = {parameters[layer]: leaf for layer, leaf in leaves.items()} | buffers
        args = tuple(x) if isinstance(x, tuple | list) else (x,)
        return torch.func.functional_call(model, given, args, dict(x) if isinstance(x, dict) else None)

    def of_loss(masks: Mapping[str, Bools]) -> Slopes:
        leaves = masked(masks)
        with _training(model, seed):
            total = sum((loss(outputs(leaves, x), y) for x, y in batches), start=torch.zeros(()))
            return _arrays(leaves, _slopes(total / len(batches), leaves))

    def of_flow(masks: Mapping[str, Bools]) -> Slopes:
        leaves = masked(masks)
        with _training(model, seed):
            total = sum((loss(outputs(leaves, x) / TEMPERATURE, y) for x, y in batches), start=torch.zeros(()))
            slopes = _slopes(total / len(batches), leaves, create_graph=True)
            flow = sum(((slope.detach() * slope).sum() for slope in slopes), start=torch.zeros(()))
            return _arrays(leaves, _slopes(flow, leaves))

    return Gradients(of_loss, of_flow)


def _slopes(value: torch.Tensor, leaves: Mapping[str, torch.Tensor], create_graph: bool = False) -> list[torch.Tensor]:
    found = torch.autograd.grad(value, list(leaves.values()), create_graph=create_graph, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves.values(), strict=True)]


def _arrays(leaves: Mapping[str, torch.Tensor], slopes: Sequence[torch.Tensor]) -> dict[str, NDArray[np.float64]]:
    return {layer: slope.detach().cpu().double().numpy() for layer, slope in zip(leaves, slopes, strict=True)}


@contextmanager
def _training(model: nn.Module, seed: int) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    try:
        with torch.random.fork_rng(), torch.enable_grad():
            torch.manual_seed(seed)
            model.train()
            yield
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise UsageError(f"the model and the loss do not run on the data: {reason}") from error
    finally:
        for module, training in modes.items():
            module.training = training


def find_parameters(model: nn.Module, tensors: Mapping[str, str]) -> dict[str, str]:
    """Layers by the name of their parameter; a weight that is stored and no parameter has no gradient."""
    names = {name for name, _ in model.named_parameters()}
    missing = [layer for layer, name in tensors.items() if name not in names]
    if missing:
        raise UsageError(f"{', '.join(missing)}: not a parameter of the module, so data says nothing of it")
    return dict(tensors)
