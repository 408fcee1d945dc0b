"""The methods of a study: the scores of `prune`, and methods that train. What each can be combined with."""

from __future__ import annotations

from dataclasses import dataclass

from effsparse_cli.pruning import FROM, GLOBAL, QUOTAS, SCORES
from effsparse_cli.study.phases import INIT, TRAINED, TRAINING
from effsparse_cli.study.phases import METHODS as TRAINING_METHODS

WHEN = (INIT, TRAINED, TRAINING)


@dataclass(frozen=True)
class Method:
    """`when` lists the moments at which a method can prune, its default first. `lsq` is the default of its layerwise
    quota, if it takes one. `effective` says whether it can reach an effective compression."""

    when: tuple[str, ...]
    lsq: str = ""
    effective: bool = True


AFTER_TRAINING = ("magnitude", "lamp")
"""Scores that the paper takes from trained weights."""

METHODS: dict[str, Method] = {
    "dense": Method((INIT,)),
    **{
        name: Method((TRAINED, INIT) if name in AFTER_TRAINING else (INIT, TRAINED), score.lsq)
        for name, score in SCORES.items()
    },
    **{name: Method((TRAINING,), method.lsq, method.effective) for name, method in TRAINING_METHODS.items()},
}

LSQS = (GLOBAL, *QUOTAS, *(f"{FROM}{name}" for name in SCORES))
