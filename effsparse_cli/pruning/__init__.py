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
    batches of data. `rounds` is the default number of pruning rounds, 0 for one shot. `effsparse methods` shows what it
    is `about` and its `paper`.
    """

    compute: Callable[[ScoreInput], LayerScores]
    about: str
    paper: str = ""
    lsq: str = "global"
    needs_data: bool = False
    rounds: int = 0


@dataclass(frozen=True)
class QuotaFunction:
    """A quota function, `quota(layers: Sequence[LayerSize]) -> Quota`, what it is about, and its paper."""

    compute: Callable[..., Quota]
    about: str
    paper: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Quota:
        return self.compute(*args, **kwargs)


GLOBAL = "global"
"""Instead of a quota: one ranking of all layers."""
FROM = "from:"
"""Before a method: the quota that its global ranking leaves to each layer."""
SENSITIVITY = "de Jorge et al., 2021"

SCORES: dict[str, Score] = {
    "magnitude": Score(
        _lazy("scores.magnitude.score"), "Absolute value of the weight.", paper="Han et al., 2015", lsq="igq"
    ),
    "random": Score(_lazy("scores.random.score"), "Uniform random number.", lsq="igq"),
    "lamp": Score(
        _lazy("scores.lamp.score"),
        "Squared weight over the sum of all squared weights of its layer that are not smaller.",
        paper="Lee et al., 2021",
    ),
    "synflow": Score(
        _lazy("scores.synflow.score"),
        "Weight times the gradient of the path norm, again after each round.",
        paper="Tanaka et al., 2020",
        rounds=100,
    ),
    "snip": Score(
        _lazy("scores.sensitivity.snip"),
        "Weight times the gradient of the loss, absolute.",
        paper="Lee et al., 2019",
        needs_data=True,
    ),
    "snip-iterative": Score(
        _lazy("scores.sensitivity.snip_iterative"),
        "SNIP, again after each round.",
        paper=SENSITIVITY,
        needs_data=True,
        rounds=300,
    ),
    "force": Score(
        _lazy("scores.sensitivity.force"),
        "SNIP, again after each round; pruned weights can return.",
        paper=SENSITIVITY,
        needs_data=True,
        rounds=300,
    ),
    "grasp": Score(
        _lazy("scores.sensitivity.grasp"),
        "Effect of the weight on the norm of the gradient.",
        paper="Wang et al., 2020",
        needs_data=True,
    ),
}

QUOTAS: dict[str, QuotaFunction] = {
    "uniform": QuotaFunction(_lazy("quotas.uniform.quota"), "The same sparsity for every layer."),
    "uniform+": QuotaFunction(
        _lazy("quotas.uniform_plus.quota"),
        "Uniform, with a dense first convolution and a last linear layer of at most 80 %.",
        paper="Gale et al., 2019",
    ),
    "erk": QuotaFunction(
        _lazy("quotas.erk.quota"),
        "Erdos-Renyi-Kernel: density by the sum over the product of the layer's sizes.",
        paper="Evci et al., 2020",
    ),
    "igq": QuotaFunction(
        _lazy("quotas.igq.quota"),
        "Ideal Gas Quotas: compression grows with the number of weights of the layer.",
        paper="Vysogorets and Kempe, 2023",
    ),
    "smart-ratios": QuotaFunction(
        _lazy("quotas.smart_ratios.quota"),
        "Density falls with the depth of the layer.",
        paper="Su et al., 2020",
    ),
}

ALGORITHMS = ("bottleneck", "search", "aerp")
