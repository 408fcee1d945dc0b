"""Iterative magnitude pruning with rewinding (Frankle and Carbin 2019; Frankle et al. 2020): train, prune the smallest
weights, go back to the weights of an early epoch, and repeat."""

from __future__ import annotations

import math
from functools import partial

from effsparse_cli.study.run import Phase, Run

REMOVED_PER_ROUND = 0.2
"""The share of the paper, for a default number of rounds."""


def count_rounds(density: float) -> int:
    """Return the number of rounds that remove at most 20 % each."""
    return max(1, math.ceil(math.log(density) / math.log(1 - REMOVED_PER_ROUND) - 1e-9))


def compression_after(compression: float, number: int, rounds: int) -> float:
    """Every round keeps the same share of what is left. The last one gives the target itself."""
    return compression if number == rounds else compression ** (number / rounds)


def plan(run: Run) -> list[Phase]:
    epochs, rewind = run.recipe.epochs, run.options["rewind"]
    rounds = run.options["rounds"] or count_rounds(run.target_density)
    later = [
        Phase(name=f"round {number}", epochs=range(rewind, epochs), start=partial(prune_and_rewind, number, rounds))
        for number in range(1, rounds + 1)
    ]
    return [Phase(name="dense", epochs=range(epochs), save_after=rewind), *later]


def prune_and_rewind(number: int, rounds: int, run: Run) -> None:
    compression = compression_after(run.task.compression, number, rounds)
    run.prune(run.plan("magnitude", compression))
    run.network.rewind(run.saved["early"])
