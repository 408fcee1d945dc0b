"""Time functions side by side: all run in turn, round after round, in one process, so that other load on the machine
affects all of them. Ratios are taken within a round; the median and range of all rounds are reported."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

SHORTEST = 0.02
"""Seconds: a shorter function runs several times in a round."""
PAUSE = 0.02
"""Seconds before each function in a round: threads of torch spin for some milliseconds after their work, and would take
a core from the next function."""


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def rounds(things: Mapping[str, Callable[[], object]], repeats: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds per function and round. Each function runs once beforehand and in at least one round; one that
    has used up its time is left out of later rounds."""
    spent = {name: seconds_of(thing) for name, thing in things.items()}
    inner = {name: max(1, round(SHORTEST / max(spent[name], 1e-6))) for name in things}
    taken: dict[str, list[float]] = {name: [] for name in things}
    for i in range(repeats):
        for name, thing in things.items():
            if i == 0 or spent[name] < seconds:
                time.sleep(PAUSE)
                taken[name].append(seconds_of(thing, inner[name]))
                spent[name] += taken[name][-1] * inner[name]
    return taken


def seconds_of(thing: Callable[[], object], times: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(times):
        thing()
    return (time.perf_counter() - start) / times


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the ratios of the rounds that both were in."""
    return spread([a / b for a, b in zip(above, below, strict=False)])
