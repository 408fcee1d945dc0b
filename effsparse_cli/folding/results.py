"""What repairing did: plain data that commands, reports and scripts read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from effsparse_cli.analysis.results import Analysis
from effsparse_cli.folding.verify import Outputs
from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True)
class Left:
    """Inactive connections of one layer that stay, and why."""

    layer: str
    connections: int
    reason: str


@dataclass(frozen=True)
class Repaired:
    """`masks` say what is kept now, by layer. Of the `removed` connections `folded` carried a constant, which is now
    in a bias; `added` are the biases that were made for that, `zeroed` counts by stored tensor the biases and norm
    parameters that nothing reads. `difference` is the largest between outputs before and after, `scale` the largest
    output, over all runs; `outputs` are those after, run by run. `not_run` names operators that could not be run: what
    enters them was compared, and what is computed from their results unless `partly_run`."""

    masks: Mapping[str, Bools] = field(repr=False)
    removed: int
    folded: int
    left: tuple[Left, ...]
    zeroed: Mapping[str, int]
    added: tuple[str, ...]
    rounds: int
    difference: float
    scale: float
    before: Analysis
    after: Analysis
    outputs: Sequence[Outputs] = field(default=(), repr=False)
    not_run: tuple[str, ...] = ()
    partly_run: bool = False
