"""Repair, whatever the model is stored in: rounds of looking at the graph, measuring at operators and changing, until
nothing is left to change, then the comparison with the original. A front end says how each of these is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.folding.carriers import Facts, find_facts
from effsparse_cli.folding.decide import Home, Measured, decide
from effsparse_cli.folding.results import Left, Repaired
from effsparse_cli.folding.uniform import Floats
from effsparse_cli.folding.verify import SEEDS, Outputs, compare
from effsparse_cli.formats.changes import Changes
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools

NOT_FOLLOWED = "an operator uses the weight in a way into which no constant can be folded"
NOT_RUN = "operators that cannot be run here may come before it, so their constant cannot be measured"


@dataclass(frozen=True, eq=False)
class Round:
    """What one round changes: the connections that stay, what is added where, which elements of which stored tensors
    become zero."""

    kept: Mapping[str, Bools]
    amounts: Sequence[tuple[Home, Floats]] = ()
    zeroed: Mapping[str, Bools] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.kept or self.amounts or self.zeroed)


class FrontEnd(Protocol):
    """A model that is being repaired. `epsilon` is that of the type it computes in."""

    @property
    def epsilon(self) -> float: ...

    @property
    def not_run(self) -> tuple[str, ...]:
        """Operators that cannot be run here: what they read and what is computed from their results is compared."""

    @property
    def partly_run(self) -> bool:
        """Known after a run: could nothing that depends on these operators be run?"""

    def graph(self) -> Graph:
        """As the model is now."""

    def fixed(self, facts: Mapping[str, Facts]) -> dict[str, str]:
        """Layers of which no connection can be removed without changing others, and why."""

    def measure(self, facts: Mapping[str, Facts]) -> dict[str, list[Measured]]:
        """By layer with carriers, where all operators that use it can be followed."""

    def unread(self, facts: Mapping[str, Facts]) -> dict[str, Bools]:
        """By stored tensor the biases and norm parameters, not zero yet, of channels that nothing reads."""

    def change(self, changes: Round) -> None: ...

    def outputs(self, seed: int) -> Outputs: ...

    def guard(self) -> AbstractContextManager[None]:
        """Return a context in which faults of a malformed file become errors about that file."""

    def changes(self, masks: Mapping[str, Bools]) -> Changes:
        """Return what is to be written, given the masks of all layers."""


def repair(model: FrontEnd, count_embeddings: bool = False, start: Mapping[str, Bools] | None = None) -> Repaired:
    """Changes the model in place; raises ChangedError where the result computes something else. `start` are masks to
    apply first: the model with them is the original."""
    if start:
        model.change(Round(start))
    original = [model.outputs(seed) for seed in SEEDS]
    graph = model.graph()
    before = analyze_graph(graph, count_embeddings=count_embeddings)
    folded, rounds = 0, 0
    zeroed: Counter[str] = Counter()
    added: dict[str, None] = {}
    while True:
        facts = find_facts(graph)
        changes, left, carried = _plan(model, facts)
        if changes.empty:
            break
        rounds += 1
        folded += carried
        zeroed.update({name: int(np.count_nonzero(where)) for name, where in changes.zeroed.items()})
        added.update({home.name: None for home, _ in changes.amounts if home.new})
        model.change(changes)
        graph = model.graph()
    outputs = [model.outputs(seed) for seed in SEEDS]
    agreement = compare(original, outputs, model.epsilon)
    after = analyze_graph(graph, count_embeddings=count_embeddings)
    return Repaired(
        {name: each.kept for name, each in facts.items()},
        before.totals.kept - after.totals.kept,
        folded,
        left,
        dict(zeroed),
        tuple(added),
        rounds,
        agreement.difference,
        agreement.scale,
        before,
        after,
        outputs,
        model.not_run,
        model.partly_run,
    )


def _plan(model: FrontEnd, facts: Mapping[str, Facts]) -> tuple[Round, tuple[Left, ...], int]:
    """One round: what changes, what stays although it is inactive, how many carriers go."""
    fixed = model.fixed({name: each for name, each in facts.items() if (each.kept & ~each.active).any()})
    free = {name: each for name, each in facts.items() if name not in fixed}
    measured = model.measure({name: each for name, each in free.items() if each.carrier.any()})
    kept: dict[str, Bools] = {}
    amounts: list[tuple[Home, Floats]] = []
    left = [Left(name, _inactive(facts[name]), reason) for name, reason in fixed.items() if _inactive(facts[name])]
    carried = 0
    for name, each in free.items():
        stay = each.carrier
        if name in measured:
            decision = decide(each, measured[name], model.epsilon)
            amounts += decision.amounts
            stay = each.carrier & ~decision.gone
            carried += int(np.count_nonzero(decision.gone))
        if stay.any():
            reason = decision.reason if name in measured else NOT_RUN if model.not_run else NOT_FOLLOWED
            left.append(Left(name, int(np.count_nonzero(stay)), reason))
        if (each.kept & ~each.active & ~stay).any():
            kept[name] = each.active | stay
    return Round(kept, amounts, model.unread(facts)), tuple(left), carried


def _inactive(facts: Facts) -> int:
    return int(np.count_nonzero(facts.kept & ~facts.active))
