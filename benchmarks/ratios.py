"""The engine (scan, exact pass and count) against the floor, the paper's pass and the saturated torch pass, for each
model and sparsity up to the last one at which the model is connected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from benchmarks.autograd import linear_copy, path_norm
from benchmarks.clock import Spread, ratio, rounds, spread
from benchmarks.floor import floor
from benchmarks.models import Case
from benchmarks.pruning import Subject, edge, prune, subject
from effsparse_cli.analysis.measure import analyze_graph

SPARSITIES = (0.0, 0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class Effort:
    """Maximum number of runs and seconds for each measurement, and whether to run the saturated pass, the slowest."""

    repeats: int = 15
    seconds: float = 10.0
    saturated: bool = True


@dataclass(frozen=True)
class Row:
    """`floor` is engine / floor; `autograd` and `saturated` are these / engine, None for a disconnected model. `edge`:
    the highest sparsity at which the model is connected. `agrees`: whether the paper's pass counts as many active
    connections, None if it has no answer."""

    model: str
    weights: int
    sparsity: float
    edge: bool
    active: int
    disconnected: bool
    milliseconds: Spread
    floor: Spread
    autograd: Spread | None = None
    saturated: Spread | None = None
    agrees: bool | None = None


def measure(case: Case, sparsities: Sequence[float], effort: Effort) -> Iterator[Row]:
    thing = subject(case.build(), case.example)
    linear = linear_copy(thing.model) if case.passes else None
    last = edge(thing)
    for sparsity in sorted({*sparsities, last}):
        yield _row(case, thing, linear, sparsity, sparsity == last, effort)


def _row(case: Case, thing: Subject, linear: nn.Module | None, sparsity: float, last: bool, effort: Effort) -> Row:
    weights = list(thing.weights.values())
    prune(weights, sparsity)
    found = analyze_graph(thing.graph, count_embeddings=True)
    active, apart = found.totals.active, found.disconnected
    things: dict[str, Callable[[], object]] = {"engine": lambda: analyze_graph(thing.graph), "floor": floor(weights)}
    agrees = None
    if linear is not None and not apart:
        paper = path_norm(linear, thing.weights, case.example)
        agrees = None if case.attention else paper() == active
        things["autograd"] = paper
        if effort.saturated:
            things["saturated"] = lambda: analyze_graph(thing.graph, engine="saturated")
    taken = rounds(things, effort.repeats, effort.seconds)
    slower = {name: ratio(taken[name], taken["engine"]) for name in ("autograd", "saturated") if name in taken}
    return Row(
        model=case.name,
        weights=sum(weight.numel() for weight in weights),
        sparsity=sparsity,
        edge=last,
        active=active,
        disconnected=apart,
        milliseconds=spread([1000 * seconds for seconds in taken["engine"]]),
        floor=ratio(taken["engine"], taken["floor"]),
        agrees=agrees,
        **slower,
    )
