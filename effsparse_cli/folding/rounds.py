"""Repair a model of any format, in rounds: find what is inactive, measure the constants that bias carriers add, remove
connections and add the constants to biases, until nothing changes. Then compare the outputs with those of the
original."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.folding.carriers import LayerActivity, find_activity
from effsparse_cli.folding.decide import BiasSlot, Floats, MeasuredUse, decide
from effsparse_cli.folding.results import RemainingConnections, RepairResult
from effsparse_cli.folding.verify import SEEDS, Outputs, compare
from effsparse_cli.formats.output import Changes
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools

NOT_FOLLOWED = "an operator uses the weight in a way into which no constant can be folded"
NOT_RUN = "operators that cannot be run here may come before it, so their constant cannot be measured"

Activity = Mapping[str, LayerActivity]


@dataclass(frozen=True, eq=False)
class Round:
    """The changes of one round: `kept` by layer, `amounts` added to biases, and `zeroed` elements by stored tensor."""

    kept: Mapping[str, Bools]
    amounts: Sequence[tuple[BiasSlot, Floats]] = ()
    zeroed: Mapping[str, Bools] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.kept or self.amounts or self.zeroed)


class RepairableModel(Protocol):
    """A model in memory that repair changes in place. `epsilon` is that of the type it computes in."""

    @property
    def epsilon(self) -> float: ...

    @property
    def not_run(self) -> tuple[str, ...]:
        """Operators that cannot be run here: their inputs and what is computed from their results are compared."""

    @property
    def partly_run(self) -> bool:
        """Whether nothing that depends on these operators could be run; known after a run."""

    def graph(self) -> Graph:
        """Return the graph of the model as it is now."""

    def why_fixed(self, activity: LayerActivity) -> str:
        """Return why no connection of a layer can be removed without changing others, "" if they can."""

    def measure(self, activity: Activity) -> dict[str, list[MeasuredUse]]:
        """Return all uses of each layer with carriers, if all of them can be measured."""

    def find_unread(self, activity: Activity) -> dict[str, Bools]:
        """Return, by stored tensor, biases and norm parameters of channels that nothing reads and that are not zero."""

    def apply(self, changes: Round) -> None:
        """Change the model in place."""

    def outputs(self, seed: int) -> Outputs:
        """Return the outputs for random inputs."""

    def guard(self) -> AbstractContextManager[None]:
        """Return a context in which faults of a malformed file become errors about that file."""

    def changes(self, masks: Mapping[str, Bools]) -> Changes:
        """Return what is to be written, given the masks of all layers."""


def repair(
    model: RepairableModel, count_embeddings: bool = False, start: Mapping[str, Bools] | None = None
) -> RepairResult:
    """Repair a model in place; raise ChangedError if its outputs change by more than rounding.

    `start` are masks to apply first: the model with them is the original."""
    if start:
        model.apply(Round(start))
    original = [model.outputs(seed) for seed in SEEDS]
    graph = model.graph()
    before = analyze_graph(graph, count_embeddings=count_embeddings)
    folded, rounds = 0, 0
    zeroed: Counter[str] = Counter()
    added: dict[str, None] = {}
    while True:
        activity = find_activity(graph)
        changes, remaining, folded_now = _plan(model, activity)
        if changes.empty:
            break
        rounds += 1
        folded += folded_now
        zeroed.update({name: int(np.count_nonzero(where)) for name, where in changes.zeroed.items()})
        added.update({slot.name: None for slot, _ in changes.amounts if slot.new})
        model.apply(changes)
        graph = model.graph()
    outputs = [model.outputs(seed) for seed in SEEDS]
    agreement = compare(original, outputs, model.epsilon)
    after = analyze_graph(graph, count_embeddings=count_embeddings)
    return RepairResult(
        masks={name: each.kept for name, each in activity.items()},
        removed=before.totals.kept - after.totals.kept,
        folded=folded,
        left=remaining,
        zeroed=dict(zeroed),
        added=tuple(added),
        rounds=rounds,
        difference=agreement.difference,
        scale=agreement.scale,
        before=before,
        after=after,
        outputs=outputs,
        not_run=model.not_run,
        partly_run=model.partly_run,
    )


def _plan(model: RepairableModel, activity: Activity) -> tuple[Round, tuple[RemainingConnections, ...], int]:
    """Plan one round: return its changes, the inactive connections that stay, and the number of carriers removed."""
    inactive = {name: each.kept & ~each.active for name, each in activity.items()}
    reasons = {name: model.why_fixed(each) for name, each in activity.items() if inactive[name].any()}
    fixed = {name: reason for name, reason in reasons.items() if reason}
    free = {name: each for name, each in activity.items() if name not in fixed}
    measured = model.measure({name: each for name, each in free.items() if each.carrier.any()})
    remaining = [
        RemainingConnections(name, int(np.count_nonzero(inactive[name])), reason) for name, reason in fixed.items()
    ]
    kept: dict[str, Bools] = {}
    amounts: list[tuple[BiasSlot, Floats]] = []
    folded = 0
    for name, each in free.items():
        staying = each.carrier
        if name in measured:
            decision = decide(each, measured[name], model.epsilon)
            amounts += decision.amounts
            staying = each.carrier & ~decision.removed
            folded += int(np.count_nonzero(decision.removed))
        if staying.any():
            reason = decision.reason if name in measured else NOT_RUN if model.not_run else NOT_FOLLOWED
            remaining.append(RemainingConnections(name, int(np.count_nonzero(staying)), reason))
        if (inactive[name] & ~staying).any():
            kept[name] = each.active | staying
    return Round(kept, amounts, model.find_unread(activity)), tuple(remaining), folded
