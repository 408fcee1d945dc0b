"""What each method does before, during and after training, as a list of phases of training.

To add a method, write `plan(run: Run) -> list[Phase]` in a file of this folder and add a row to METHODS. This file
imports nothing heavy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from effsparse_cli.arguments import choose
from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import FROM, GLOBAL, QUOTAS, SCORES
from effsparse_cli.study.task import StudyTask

INIT, TRAINED, TRAINING = "init", "trained", "training"
_WHEN = {TRAINED: "after", TRAINING: "during"}


@dataclass(frozen=True)
class TrainingMethod:
    """A method that prunes during training: the function that plans it, its default quota, its options with their
    defaults, and its paper. `effective` says whether it can reach an effective compression."""

    plan: str
    lsq: str
    paper: str
    options: Mapping[str, Any] = field(default_factory=dict)
    effective: bool = True


METHODS: dict[str, TrainingMethod] = {
    "gmp": TrainingMethod(
        "gradual.plan", "uniform", "Zhu and Gupta, 2017", {"begin": 0.0, "end": 0.75, "every": 100, "initial": 0.0}
    ),
    "imp": TrainingMethod("tickets.plan", GLOBAL, "Frankle and Carbin, 2019", {"rounds": 0, "rewind": 0}),
    "set": TrainingMethod(
        "rewiring.plan_set", "erk", "Mocanu et al., 2018", {"alpha": 0.3, "every": 0}, effective=False
    ),
    "rigl": TrainingMethod(
        "rewiring.plan_rigl", "erk", "Evci et al., 2020", {"alpha": 0.3, "every": 100, "end": 0.75}, effective=False
    ),
    "cs": TrainingMethod(
        "soft.plan",
        GLOBAL,
        "Savarese et al., 2020",
        {"rounds": 1, "rewind": 0, "temperature": 200.0, "penalty": 1e-8, "initial": 0.0},
    ),
}
"""Options: `begin` and `end` are shares of training, `every` is a number of steps (0: an epoch), `rewind` an epoch,
`alpha` the share of connections that are replaced. With 0 `rounds`, imp takes as many as it needs to remove at most
20 % in each."""


def check_task(task: StudyTask) -> None:
    """Raise UsageError for an invalid combination of method, quota, `when` and options. Reads no data."""
    choose(task.method, ("dense", *SCORES, *METHODS), "method")
    if task.method == "dense":
        if task.compression != 1:
            raise UsageError(f"method dense prunes nothing: its compression is 1, not {task.compression:g}.")
        if task.options:
            raise UsageError(f"method dense has no option {next(iter(task.options))!r}. It has no options.")
        return
    if not task.compression > 1:
        raise UsageError(f"method {task.method}: compression {task.compression:g} must be greater than 1.")
    moments = (TRAINING,) if task.method in METHODS else (INIT, TRAINED)
    if task.when not in moments:
        raise UsageError(f"method {task.method}: when is {task.when!r}: use {' or '.join(moments)}.")
    if task.lsq:
        choose(task.lsq, (GLOBAL, *QUOTAS, *(f"{FROM}{name}" for name in SCORES)), "lsq")
    if task.compact and task.method in METHODS:
        raise UsageError(
            f"compact training needs masks that do not change, but {task.method} changes them. Leave out compact, or "
            "this method."
        )
    if task.compact and not task.effective:
        raise UsageError(
            f"compact training needs effective targets, which leave no inactive connections, but {task.method} has "
            "direct ones. Set effective = true, or leave out compact."
        )
    known = default_options(task)
    for name, value in task.options.items():
        if name not in known:
            listed = f" Its options: {', '.join(known)}." if known else " It has no options."
            quota = f" with lsq {task.lsq}" if task.lsq else ""
            raise UsageError(f"method {task.method}{quota} has no option {name!r}.{listed}")
        _check_option(task.method, name, value, whole=isinstance(known[name], int))

    options = options_of(task)
    if task.method == "gmp" and options["begin"] > options["end"]:
        raise UsageError(f"method gmp: begin is {options['begin']}, which is after end, {options['end']}.")


def check_epochs(task: StudyTask, epochs: int) -> None:
    """Refuse methods that need more training than the recipe has."""
    if task.when in (TRAINED, TRAINING) and task.method != "dense" and epochs == 0:
        raise UsageError(f"method {task.method} prunes {_WHEN[task.when]} training, but the recipe has 0 epochs.")
    rewind = options_of(task).get("rewind", 0)
    if rewind and rewind >= epochs:
        raise UsageError(
            f"method {task.method}: weights are rewound to epoch {rewind}, but training has only {epochs}."
        )


def _check_option(method: str, name: str, value: object, *, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise UsageError(f"method {method}: {name} is {value!r}: use a {'whole ' if whole else ''}number.")
    if name == "initial" and method == "cs":
        return
    is_share = name in ("begin", "end", "alpha", "initial")
    if name == "temperature" and value < 1:
        raise UsageError(f"method {method}: temperature is {value!r}: it must be at least 1.")
    if not 0 <= value <= (1 if is_share else math.inf):
        must = "be between 0 and 1" if is_share else "not be negative"
        raise UsageError(f"method {method}: {name} is {value!r}: it must {must}.")


def options_of(task: StudyTask) -> dict[str, Any]:
    """Return the options of a task's method, with their defaults."""
    return {**default_options(task), **task.options}


def default_options(task: StudyTask) -> Mapping[str, Any]:
    """Return the options of the task's method with their defaults. 0 is the default of a score, or of the quota's."""
    if task.method in METHODS:
        return METHODS[task.method].options
    used = [SCORES[name] for name in (task.method, task.lsq.removeprefix(FROM)) if name in SCORES]
    rounds = {"rounds": 0} if any(score.rounds for score in used) else {}
    return {**rounds, **({"samples": 0} if any(score.needs_data for score in used) else {})}
