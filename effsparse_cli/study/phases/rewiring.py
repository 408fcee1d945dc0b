"""Sparse training that replaces connections: SET (Mocanu et al. 2018) grows new ones at random, RigL (Evci et al. 2020)
where the gradient is largest. Every layer keeps its number of connections. How many of them are active depends on
where they grow, so targets are direct."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from effsparse_cli.study.data.batches import generator
from effsparse_cli.study.run import Phase, Run

Drop = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""Returns which weights to drop, from the weights of a layer, the mask of those that are kept, and how many at most."""
Growth = Callable[[Run, str, int], torch.Tensor]
"""Returns a score for every weight of a layer at a step; the largest are grown."""


def plan_set(run: Run) -> list[Phase]:
    """SET: at the end of every epoch but the last, the same share of the positive and of the negative weights is
    replaced, those closest to zero."""
    alpha, every = run.options["alpha"], run.options["every"] or run.steps_per_epoch
    last = _count_steps(run)

    def adapt(run: Run, step: int) -> bool:
        if step > 0 and step % every == 0:
            rewire(run, partial(_smallest_of_each_sign, alpha), _random, step)
        return False

    return [Phase(name="set", epochs=range(run.recipe.epochs), start=partial(start, every, last), adapt=adapt)]


def plan_rigl(run: Run) -> list[Phase]:
    """RigL: the share falls like a cosine until `end`. A step that replaces connections does not train weights."""
    alpha, every = run.options["alpha"], run.options["every"] or run.steps_per_epoch
    last = round(run.options["end"] * _count_steps(run))

    def adapt(run: Run, step: int) -> bool:
        due = 0 < step < last and step % every == 0
        if due:
            rewire(run, partial(_smallest, drop_fraction(step, alpha, last)), _gradient, step)
        return due

    return [Phase(name="rigl", epochs=range(run.recipe.epochs), start=partial(start, every, last), adapt=adapt)]


def start(every: int, last: int, run: Run) -> None:
    run.prune(run.plan("random"))
    if every >= last:
        run.notes.append(
            f"no connections were replaced: the first replacement is due after {every:,} steps, but replacement ends "
            f"after {last:,}"
        )


def drop_fraction(step: int, alpha: float, end: int) -> float:
    """The share of connections that RigL replaces at a step (its equation for f_decay)."""
    return alpha / 2 * (1 + math.cos(step * math.pi / end))


def rewire(run: Run, drop: Drop, growth: Growth, step: int) -> None:
    """Drop weights of each layer, and grow as many: among all that are then pruned, as RigL does. What was dropped and
    grown again keeps its value; new connections start at zero, without momentum."""
    masks = {}
    for layer, mask in run.network.masks.items():
        if not run.network.weights[layer].requires_grad:
            continue  # what would grow could never be trained
        kept = int(mask.sum())
        left = mask & ~drop(run.network.weights[layer].detach(), mask, mask.numel() - kept)
        count = kept - int(left.sum())
        masks[layer] = left | _largest(growth(run, layer, step).masked_fill(left, -math.inf), count)
    run.network.apply(masks)
    run.hold()


def _smallest(fraction: float, weights: torch.Tensor, mask: torch.Tensor, most: int) -> torch.Tensor:
    """Return a share of the weights in `mask`, those closest to zero, and no more than `most`."""
    count = int(mask.sum())
    sizes = weights.abs().masked_fill(~mask, -math.inf)
    return mask & ~_largest(sizes, count - min(int(fraction * count), most))


def _smallest_of_each_sign(fraction: float, weights: torch.Tensor, mask: torch.Tensor, most: int) -> torch.Tensor:
    positive = _smallest(fraction, weights, mask & (weights >= 0), most)
    return positive | _smallest(fraction, weights, mask & (weights < 0), most - int(positive.sum()))


def _largest(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Return a mask of exactly `count` elements; the earlier ones among equals."""
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    order = torch.sort(scores.flatten(), descending=True, stable=True).indices
    chosen.view(-1)[order[:count]] = True
    return chosen


def _random(run: Run, layer: str, step: int) -> torch.Tensor:
    shape = run.network.weights[layer].shape
    return torch.rand(shape, generator=generator("growth", run.task.seed, step, layer)).to(run.network.device)


def _gradient(run: Run, layer: str, step: int) -> torch.Tensor:
    gradient = run.network.weights[layer].grad
    return torch.zeros_like(run.network.weights[layer]) if gradient is None else gradient.detach().abs()


def _count_steps(run: Run) -> int:
    return run.recipe.epochs * run.steps_per_epoch
