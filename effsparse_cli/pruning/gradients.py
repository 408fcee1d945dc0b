"""Gradients of a torch module over batches of data, for scores that need them. The module is not changed: gradients
are taken at copies of its weights, buffers and random state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from effsparse_cli.errors import UsageError, first_line
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.plan import Gradients, LayerGradients

Batch = tuple[Any, Any]
Loss = Callable[[Any, Any], torch.Tensor]
Differentiate = Callable[[torch.Tensor, Mapping[str, torch.Tensor]], list[torch.Tensor]]
TEMPERATURE = 200.0
"""GraSP divides the outputs by this number to flatten the loss."""


def gradients_of(
    model: nn.Module, parameters: Mapping[str, str], batches: Sequence[Batch], loss: Loss, seed: int = 0
) -> Gradients:
    """Return functions that compute gradients by layer; `parameters` maps layers to parameter names.

    The loss is the mean over all batches. The module runs in training mode: batch norm uses the batch's statistics,
    dropout the seed.
    """
    stored = dict(model.named_parameters())
    missing = [layer for layer, name in parameters.items() if name not in stored]
    if missing:
        raise UsageError(f"{', '.join(missing)}: not a parameter of the module, so it has no gradient")

    def make_leaves(masks: Mapping[str, Bools]) -> dict[str, torch.Tensor]:
        leaves = {}
        for layer, name in parameters.items():
            weight = stored[name].detach()
            kept = torch.from_numpy(masks[layer].copy()).to(weight.device) if layer in masks else None
            leaves[layer] = (weight.clone() if kept is None else weight * kept).requires_grad_()
        return leaves

    def run(leaves: Mapping[str, torch.Tensor], x: Any) -> Any:
        buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
        tensors = {parameters[layer]: leaf for layer, leaf in leaves.items()}
        args = tuple(x) if isinstance(x, tuple | list) else (x,)
        return call_with(model, tensors, buffers, args, dict(x) if isinstance(x, dict) else None)

    def add_up(leaves: Mapping[str, torch.Tensor], value: Loss, differentiate: Differentiate) -> list[torch.Tensor]:
        """Return the mean over batches. One batch at a time: its graph holds the activations of the whole network."""
        sums = [torch.zeros_like(leaf) for leaf in leaves.values()]
        with _training(model, seed):
            for x, y in batches:
                for total, found in zip(sums, differentiate(value(run(leaves, x), y), leaves), strict=True):
                    total += found.detach() / len(batches)
        return sums

    def of_loss(masks: Mapping[str, Bools]) -> LayerGradients:
        leaves = make_leaves(masks)
        return _to_numpy(leaves, add_up(leaves, loss, _differentiate))

    def of_flow(masks: Mapping[str, Bools]) -> LayerGradients:
        def flat_loss(outputs: Any, y: Any) -> torch.Tensor:
            return loss(outputs / TEMPERATURE, y)

        leaves = make_leaves(masks)
        with sdpa_kernel(SDPBackend.MATH):  # other kernels of attention have no second derivative
            gradients = add_up(leaves, flat_loss, _differentiate)
            return _to_numpy(leaves, add_up(leaves, flat_loss, partial(_multiply_hessian, vector=gradients)))

    return Gradients(of_loss, of_flow)


def call_with(
    model: nn.Module,
    weights: Mapping[str, torch.Tensor],
    buffers: Mapping[str, torch.Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module with other tensors in place of some parameters, wherever they are used.

    torch ties names itself, but then it leaves the new tensor in modules that have two names.
    """
    stored = dict(model.named_parameters(remove_duplicate=False))
    replaced = {id(stored[name]): tensor for name, tensor in weights.items()}
    # Each module once, with all of its parameters.
    places = {
        f"{path}.{name}".lstrip("."): replaced[id(parameter)]
        for path, module in model.named_modules()
        for name, parameter in module._parameters.items()
        if id(parameter) in replaced
    }
    return torch.func.functional_call(model, {**places, **buffers}, args, kwargs, tie_weights=False)


def _differentiate(value: torch.Tensor, leaves: Mapping[str, torch.Tensor], again: bool = False) -> list[torch.Tensor]:
    """Return the gradients, which can be differentiated `again`."""
    gradients = torch.autograd.grad(value, list(leaves.values()), create_graph=again, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(gradients, leaves.values(), strict=True)]


def _multiply_hessian(
    value: torch.Tensor, leaves: Mapping[str, torch.Tensor], vector: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    gradients = _differentiate(value, leaves, again=True)
    flow = sum(((v * g).sum() for v, g in zip(vector, gradients, strict=True)), start=torch.zeros(()))
    return _differentiate(flow, leaves)


def _to_numpy(leaves: Mapping[str, torch.Tensor], gradients: Sequence[torch.Tensor]) -> dict[str, NDArray[np.float64]]:
    return {layer: g.detach().cpu().double().numpy() for layer, g in zip(leaves, gradients, strict=True)}


@contextmanager
def _training(model: nn.Module, seed: int) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    try:
        with torch.random.fork_rng(), torch.enable_grad():
            torch.manual_seed(seed)
            model.train()
            yield
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise UsageError(f"the model or the loss failed on the data: {first_line(error)}") from error
    finally:
        for module, training in modes.items():
            module.training = training
