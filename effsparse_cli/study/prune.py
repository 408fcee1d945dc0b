"""Prune a network of an experiment by the methods of `prune`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from effsparse_cli.errors import TargetError
from effsparse_cli.formatting import plural
from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning import FROM, SCORES
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.gradients import Batch, gradients_of
from effsparse_cli.pruning.plan import PrunePlan, PruneResult
from effsparse_cli.pruning.topk import keep_best
from effsparse_cli.study.data.batches import cut_center, generator
from effsparse_cli.study.data.dataset import Data, to_floats
from effsparse_cli.study.network import Network

PER_CLASS = 10
"""Examples that scores from data get for each class, on average."""


def target_of(compression: float) -> Fraction:
    """Return the sparsity of a compression as an exact fraction: also of one that was written as a sparsity, such as
    0.97, although it is not a finite decimal."""
    return 1 - 1 / Fraction(compression).limit_denominator(10**6)


def prune_by_plan(network: Network, plan: PrunePlan, graph: Graph | None = None) -> PruneResult:
    """Prune a network in place, starting from its masks if the plan says so. `graph` ranks by other numbers."""
    found = prune_graph((graph or network.graph).with_masks(network.kept()), plan)
    if found.out_of_reach:
        cut = f"cut the network at {found.cut}" if found.cut else "leave nothing active"
        raise TargetError(
            f"{plan.method}: a target of {plural(found.wanted, 'active connection')} is out of reach: the next step "
            f"after {found.active:,} would {cut}. Choose a lower compression."
        )
    if plan.direct and plan.from_masks and found.kept < found.wanted:
        found = _fill(network, found)
    network.apply(found.masks)
    return found


def _fill(network: Network, found: PruneResult) -> PruneResult:
    """Keep the largest of the weights that were just pruned, up to the target. Rounding can allow a layer one more
    connection than an earlier, less sparse step has left it, and others take its place."""
    before = network.kept()
    sizes = {name: np.abs(network.weights[name].detach().cpu().numpy()) for name in found.masks}
    lost = {name: np.where(before[name] & ~mask, sizes[name], -np.inf) for name, mask in found.masks.items()}
    extra = keep_best(lost, found.wanted - found.kept)
    masks = {name: mask | extra[name] for name, mask in found.masks.items()}
    return replace(found, masks=masks, kept=sum(int(np.count_nonzero(mask)) for mask in masks.values()), notes=())


def add_gradients(plan: PrunePlan, network: Network, data: Data, *, samples: int | None, batch: int) -> PrunePlan:
    """Return the plan with gradients over training examples, in batches of up to `batch`, if its method or quota needs
    them."""
    used = [name.removeprefix(FROM) for name in (plan.method, plan.lsq)]
    if not any(name in SCORES and SCORES[name].needs_data for name in used):
        return plan
    order = torch.randperm(len(data.train), generator=generator("pruning", plan.seed))
    chosen = order[: samples or PER_CLASS * data.classes]
    batches = Batches(data, torch.tensor_split(chosen, math.ceil(len(chosen) / batch)), network.device)
    return replace(
        plan, gradients=gradients_of(network.module, network.parameters, batches, F.cross_entropy, plan.seed)
    )


@dataclass(frozen=True)
class Batches(Sequence[Batch]):
    """Batches of training examples, each read when it is needed."""

    data: Data
    positions: Sequence[torch.Tensor]
    device: torch.device

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: Any) -> Any:
        chosen = self.positions[index]
        images = cut_center(to_floats(self.data.train.examples.read(chosen)), self.data.size)
        return self.data.normalize(images).to(self.device), self.data.train.labels[chosen].to(self.device)
