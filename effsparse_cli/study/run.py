"""One experiment while it runs: everything that its phases read and change, and all of it that a checkpoint keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from effsparse_cli.analysis.results import Analysis, Counts
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.study.compact import Compacted, compact_network
from effsparse_cli.study.data.batches import count_batches
from effsparse_cli.study.data.dataset import Data
from effsparse_cli.study.network import Network, State
from effsparse_cli.study.phases import METHODS, options_of
from effsparse_cli.study.prune import add_gradients, prune_by_plan, target_of
from effsparse_cli.study.recipes import Recipe
from effsparse_cli.study.task import StudyTask


@dataclass
class Progress:
    """Where an experiment is. `loss`, `correct` and `seen` are sums over the epoch so far."""

    phase: int = 0
    epoch: int = -1
    batch: int = 0
    steps: int = 0
    loss: float = 0.0
    correct: int = 0
    seen: int = 0
    seconds: float = 0.0


@dataclass
class Run:
    """`module` is what is trained: that of the network, or the compacted one. `held` has its parameters with pruned
    elements, each with a mask that is True where it is pruned. `saved` are states to rewind to, `soft` the soft masks
    of a search, and `pruned` is what was measured when the network was last pruned."""

    task: StudyTask
    data: Data
    recipe: Recipe
    network: Network
    module: nn.Module
    progress: Progress = field(default_factory=Progress)
    optimizer: torch.optim.SGD | None = None
    compacted: Compacted | None = None
    held: list[tuple[nn.Parameter, torch.Tensor]] = field(default_factory=list)
    saved: dict[str, State] = field(default_factory=dict)
    soft: dict[str, nn.Parameter] = field(default_factory=dict)
    pruned: dict[str, Any] | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def steps_per_epoch(self) -> int:
        return count_batches(len(self.data.train), self.recipe.batch)

    @property
    def options(self) -> dict[str, Any]:
        return options_of(self.task)

    @property
    def target_density(self) -> float:
        return 1 / self.task.compression

    def plan(self, method: str, compression: float | None = None) -> PrunePlan:
        """Return what to prune by a method, to the task's compression or another one, within the task's quota. A weight
        that is zero before training, but not pruned, can be kept."""
        lsq = self.task.lsq or (METHODS[self.task.method].lsq if self.task.method in METHODS else "")
        samples = self.options.get("samples") or None
        plan = PrunePlan(
            target=target_of(self.task.compression if compression is None else compression),
            method=method,
            lsq=lsq,
            direct=not self.task.effective,
            seed=self.task.seed,
            from_masks=True,
            rounds=self.options.get("rounds", 0) if method == self.task.method else 0,
            device="cpu" if self.network.device.type == "mps" else self.recipe.device,  # MPS has no float64
        )
        return add_gradients(plan, self.network, self.data, samples=samples, batch=self.recipe.batch)

    def prune(self, plan: PrunePlan, scores: Any = None) -> None:
        """Prune the network, by other numbers than its weights if there are `scores`."""
        graph = None if scores is None else self.network.graph_of(scores)
        found = prune_by_plan(self.network, plan, graph)
        self.notes = list(found.notes)
        reached = found.kept if plan.direct else found.active
        if reached > found.wanted + 1:
            self.notes.append(
                f"{reached:,} connections, not {found.wanted:,}: removing one more weight would leave fewer than that"
            )
        self.pruned = describe_counts(self.network.measure().totals)
        self.hold()

    def compact(self) -> None:
        """Go on with the compacted network."""
        self.compacted = compact_network(self.network, self.data.shape)
        self.module = self.compacted.module
        self.hold()

    def hold(self) -> None:
        """Update `held` from the masks, and set the momentum of pruned weights to zero."""
        masks = self.compacted.masks if self.compacted else self._masks()
        parameters = dict(self.module.named_parameters(remove_duplicate=False))
        self.held = [(parameters[name], ~mask) for name, mask in masks.items() if not bool(mask.all())]
        for parameter, pruned in self.held:
            momentum = self.optimizer.state.get(parameter, {}).get("momentum_buffer") if self.optimizer else None
            if momentum is not None:
                momentum.masked_fill_(pruned, 0)

    def _masks(self) -> dict[str, torch.Tensor]:
        return {self.network.parameters[layer]: mask for layer, mask in self.network.masks.items()}

    def start_optimizer(self) -> None:
        """Start without momentum. Soft masks do not decay."""
        groups = [{"params": list(self.module.parameters()), "weight_decay": self.recipe.decay}]
        if self.soft:
            groups.append({"params": list(self.soft.values()), "weight_decay": 0.0})
        self.optimizer = torch.optim.SGD(groups, lr=self.recipe.lr, momentum=self.recipe.momentum)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Training over some epochs of the recipe. `start` prepares the network. `adapt` is called with the gradients of
    each step, counted from 0 in the phase; if it returns True, it replaces the step. The state after `save_after`
    epochs is saved, to rewind to. In a `soft` phase, weights are multiplied by soft masks."""

    name: str
    epochs: range
    start: Callable[[Run], None] = lambda run: None
    adapt: Callable[[Run, int], bool] | None = None
    save_after: int | None = None
    soft: bool = False


def describe_counts(counts: Counts) -> dict[str, Any]:
    """Return sparsities and compressions; an infinite compression is None, since JSON has no infinity."""

    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "connections": counts.connections,
        "kept": counts.kept,
        "active": counts.active,
        "direct_sparsity": counts.direct_sparsity,
        "effective_sparsity": counts.effective_sparsity,
        "direct_compression": finite(counts.direct_compression),
        "effective_compression": finite(counts.effective_compression),
    }


def describe_layers(analysis: Analysis) -> list[dict[str, Any]]:
    fields = ("connections", "kept", "active")
    return [{"name": layer.name} | {name: getattr(layer.counts, name) for name in fields} for layer in analysis.layers]
