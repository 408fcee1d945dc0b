"""Pruning: scores, quotas and a target in, masks out. Start reading in execute.py (`prune_graph`).

This file has the tables of what can be chosen. The command line reads its choices and help texts from them, so it must
import nothing heavy: functions are named by `module.function` and imported when they are first called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effsparse_cli.pruning.quotas import Quota
    from effsparse_cli.pruning.scores.inputs import LayerScores, ScoreInput


def _lazy(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(f"{__name__}.{module}"), name)(*args, **kwargs)

    return call


@dataclass(frozen=True)
class Score:
    """A score function, `score(inputs: ScoreInput) -> LayerScores`, and what the rest of the program must know about
    it.

    `lsq` is the default quota: "global" if scores can be compared between layers. `needs_data` asks for gradients over
    batches of data. `rounds` is the default number of pruning rounds, 0 for one shot.
    """

    compute: Callable[[ScoreInput], LayerScores]
    lsq: str = "global"
    needs_data: bool = False
    rounds: int = 0


GLOBAL = "global"
"""Instead of a quota: one ranking of all layers."""

SCORES: dict[str, Score] = {
    "magnitude": Score(_lazy("scores.magnitude.score"), lsq="igq"),
    "random": Score(_lazy("scores.random.score"), lsq="igq"),
    "lamp": Score(_lazy("scores.lamp.score")),
    "synflow": Score(_lazy("scores.synflow.score"), rounds=100),
    "snip": Score(_lazy("scores.sensitivity.snip"), needs_data=True),
    "snip-iterative": Score(_lazy("scores.sensitivity.snip_iterative"), needs_data=True, rounds=300),
    "force": Score(_lazy("scores.sensitivity.force"), needs_data=True, rounds=300),
    "grasp": Score(_lazy("scores.sensitivity.grasp"), needs_data=True),
}

QUOTAS: dict[str, Callable[..., Quota]] = {
    "uniform": _lazy("quotas.uniform.quota"),
    "uniform+": _lazy("quotas.uniform_plus.quota"),
    "erk": _lazy("quotas.erk.quota"),
    "igq": _lazy("quotas.igq.quota"),
    "smart-ratios": _lazy("quotas.smart_ratios.quota"),
}

ALGORITHMS = ("bottleneck", "search", "aerp")
