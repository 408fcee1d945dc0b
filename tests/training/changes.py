"""Changes that may happen to a live network between two analyses, at a place chosen by the given random generator."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils import prune as torch_prune

from tests.training.networks import Masked, Steered, Tokens

Change = Callable[[nn.Module, random.Random], None]


def _random_mask(like: Tensor, rng: random.Random) -> Tensor:
    draw = torch.rand(like.shape, generator=torch.Generator().manual_seed(rng.randrange(2**31)))
    return (draw < rng.choice([0.0, 0.3, 0.6, 1.0])).to(like.dtype)


def _parameter(model: nn.Module, rng: random.Random) -> nn.Parameter:
    return rng.choice(list(model.parameters()))


def zeros_in_place(model: nn.Module, rng: random.Random) -> None:
    p = _parameter(model, rng)
    with torch.no_grad():
        p.mul_(_random_mask(p, rng))


def zeros_behind_autograd(model: nn.Module, rng: random.Random) -> None:
    p = _parameter(model, rng)
    p.data.mul_(_random_mask(p, rng))


def another_memory(model: nn.Module, rng: random.Random) -> None:
    p = _parameter(model, rng)
    p.data = p.data * _random_mask(p, rng) + 0.0


def refilled(model: nn.Module, rng: random.Random) -> None:
    for p in model.parameters():
        p.data.uniform_(0.1, 1.0)


def not_a_number(model: nn.Module, rng: random.Random) -> None:
    _parameter(model, rng).data.view(-1)[0] = float("nan")


def another_parameter(model: nn.Module, rng: random.Random) -> None:
    module, name = rng.choice([(m, n) for m in model.modules() for n, p in m._parameters.items() if p is not None])
    p = module.get_parameter(name)
    setattr(module, name, nn.Parameter(p.detach() * _random_mask(p, rng)))


def one_step(model: nn.Module, rng: random.Random) -> None:
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(model.parameters(), 0.01).step()


def mode(model: nn.Module, rng: random.Random) -> None:
    model.train(rng.random() < 0.5)


def pruned(model: nn.Module, rng: random.Random) -> None:
    """A module that is already pruned gets an additional mask."""
    kinds = (nn.Linear, nn.Conv2d)
    places = [m for m in model.modules() if type(m) in kinds and not parametrize.is_parametrized(m)]
    if places:
        torch_prune.random_unstructured(rng.choice(places), "weight", 0.4)  # type: ignore[no-untyped-call]


def pruning_removed(model: nn.Module, rng: random.Random) -> None:
    for module in model.modules():
        if "weight_orig" in module._parameters:
            torch_prune.remove(module, "weight")  # type: ignore[no-untyped-call]


def buffers_changed(model: nn.Module, rng: random.Random) -> None:
    """Masks of torch.nn.utils.prune, the network's own masks, statistics."""
    for b in model.buffers():
        if b.is_floating_point() and rng.random() < 0.5:
            b.copy_(_random_mask(b, rng))


class Holes(nn.Module):
    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.get_buffer("mask")


def parametrized(model: nn.Module, rng: random.Random) -> None:
    places = [m for m in model.modules() if type(m) is nn.Linear and "weight" in m._parameters]
    if places:
        place = rng.choice(places)
        parametrize.register_parametrization(place, "weight", Holes(_random_mask(place.weight.detach(), rng)))


def parametrizations_removed(model: nn.Module, rng: random.Random) -> None:
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=rng.random() < 0.5)


def another_module(model: nn.Module, rng: random.Random) -> None:
    """Replace a module by one of the same shape, or an activation by one that does not keep zero."""
    if isinstance(model, nn.Sequential):
        model[rng.choice([2, 6])] = rng.choice([nn.ReLU, nn.Sigmoid])()
        model[8] = nn.Linear(16, 3, bias=rng.random() < 0.5)


def another_type(model: nn.Module, rng: random.Random) -> None:
    if isinstance(model, Tokens):
        model.to(rng.choice([torch.bfloat16, torch.float64, torch.float32]))


def hooked(model: nn.Module, rng: random.Random) -> None:
    mask = torch.ones(1)
    model.register_forward_hook(lambda _, __, y: y * mask.to(y.dtype))
    if rng.random() < 0.5:
        model._forward_hooks.popitem()


def own_masks(model: nn.Module, rng: random.Random) -> None:
    """Change the network's own masks in place, or replace the tensors."""
    if isinstance(model, Masked):
        model.listed[0].mul_(_random_mask(model.listed[0], rng))
        for name in rng.sample(["mask", "passing", "plain"], 2):
            setattr(model, name, _random_mask(torch.ones(6, 6), rng))
        model.listed = [_random_mask(torch.ones(6, 6), rng)] if rng.random() < 0.3 else model.listed
        model.gate, model.skip = rng.choice([0.0, 1.0, 2.0]), rng.random() < 0.5
    if isinstance(model, Steered):
        model.choice.copy_(_random_mask(model.choice, rng))


def tied(model: nn.Module, rng: random.Random) -> None:
    if isinstance(model, Tokens) and "weight" in model.out._parameters:
        shared = model.table.weight
        model.out.weight = shared if rng.random() < 0.5 else nn.Parameter(shared.detach().clone())


CHANGES: tuple[Change, ...] = (
    zeros_in_place, zeros_behind_autograd, another_memory, refilled, not_a_number, another_parameter, one_step, mode,
    pruned, pruning_removed, buffers_changed, parametrized, parametrizations_removed, another_module, another_type,
    hooked, own_masks, tied,
)  # fmt: skip
