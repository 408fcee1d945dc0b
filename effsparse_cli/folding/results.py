"""The result of a repair, for commands, reports and scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from effsparse_cli.analysis.results import Analysis
from effsparse_cli.folding.verify import Outputs
from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True)
class RemainingConnections:
    """Inactive connections of one layer that stay, and why."""

    layer: str
    connections: int
    reason: str


@dataclass(frozen=True)
class RepairResult:
    """The result of a repair.

    - `masks`: what is kept now, by layer.
    - `removed` connections, of which `folded` carried a constant that was added to a bias; `left` are inactive
      connections that stay.
    - `added`: biases that were created. `zeroed`: number of elements set to zero by stored tensor, biases and norm
      parameters that nothing reads.
    - `difference`: the largest difference between outputs before and after, over all runs; `scale`: the largest output.
      `outputs` are those after the repair, one list per run.
    - `not_run`: operators that could not be run. Their inputs were compared, and what is computed from their results
      unless `partly_run`.
    """

    masks: Mapping[str, Bools] = field(repr=False)
    removed: int
    folded: int
    left: tuple[RemainingConnections, ...]
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
