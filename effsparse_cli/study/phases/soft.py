"""Continuous sparsification (Savarese et al. 2020): masks sigmoid(beta s) are learned together with the weights under
an l1 penalty, while beta grows from 1 to its final value. Then the best connections are kept, the weights go back to
those of an early epoch, and the network is trained with hard masks.

The paper keeps every s > 0 and controls the sparsity by the initial s. Here the connections with the largest s are
kept, exactly as many as the target leaves.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from effsparse_cli.study.run import Phase, Run


def plan(run: Run) -> list[Phase]:
    epochs, rewind, rounds = run.recipe.epochs, run.options["rewind"], max(1, run.options["rounds"])
    searches = [
        Phase(
            name=f"search {number + 1}",
            epochs=range(epochs),
            start=partial(start_search, number),
            save_after=rewind if number == 0 else None,
            soft=True,
        )
        for number in range(rounds)
    ]
    return [*searches, Phase(name="pruned", epochs=range(rewind, epochs), start=prune_and_rewind)]


def temperature_at(final: float, epoch: int, epochs: int) -> float:
    """Return beta in an epoch: it grows exponentially from 1 in the first to `final` in the last."""
    return float(final ** (epoch / max(epochs - 1, 1)))


def start_search(number: int, run: Run) -> None:
    """Begin with equal soft masks. In later rounds, those that grew start again from the initial value."""
    initial = run.options["initial"]
    if number == 0:
        run.soft = {name: nn.Parameter(torch.full_like(w, initial)) for name, w in run.network.weights.items()}
        return
    with torch.no_grad():
        for values in run.soft.values():
            values.mul_(run.options["temperature"]).clamp_(max=initial)


def soften(run: Run, epoch: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the weights times their soft masks, by parameter, and the penalty. Masks start at 1."""
    beta = temperature_at(run.options["temperature"], epoch, run.recipe.epochs)
    scale = 1 / torch.sigmoid(torch.tensor(float(run.options["initial"])))
    masks = {name: torch.sigmoid(beta * values) for name, values in run.soft.items()}
    weights = {run.network.parameters[name]: run.network.weights[name] * mask * scale for name, mask in masks.items()}
    total = torch.stack([mask.sum() for mask in masks.values()]).sum()
    return weights, run.options["penalty"] * total


def prune_and_rewind(run: Run) -> None:
    # Ranked as magnitudes, so they must be positive and different where s is.
    values = {name: each.detach().cpu().double() for name, each in run.soft.items()}
    least = min(float(each.min()) for each in values.values())
    run.soft = {}
    run.prune(run.plan("magnitude"), {name: (each - least + 1).numpy() for name, each in values.items()})
    run.network.rewind(run.saved["early"])
