"""Masks that stay as they are while the network is trained: none, from the initial weights, or from trained ones."""

from __future__ import annotations

from effsparse_cli.study.phases import TRAINED
from effsparse_cli.study.run import Phase, Run


def plan(run: Run) -> list[Phase]:
    epochs = range(run.recipe.epochs)
    if run.task.method == "dense":
        return [Phase(name="dense", epochs=epochs)]
    if run.task.when == TRAINED:
        return [
            Phase(name="dense", epochs=epochs, save_after=0),
            Phase(name="pruned", epochs=epochs, start=prune_and_rewind),
        ]
    return [Phase(name="pruned", epochs=epochs, start=prune)]


def prune(run: Run) -> None:
    run.prune(run.plan(run.task.method))
    if run.task.compact:
        run.compact()


def prune_and_rewind(run: Run) -> None:
    """Rank by the trained weights, and go on with the initial ones (the paper's appendix, for magnitude and LAMP)."""
    run.prune(run.plan(run.task.method))
    run.network.rewind(run.saved["early"])
    if run.task.compact:
        run.compact()
