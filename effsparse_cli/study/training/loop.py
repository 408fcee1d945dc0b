"""The training loop: phases, epochs and batches, from wherever a run is to its end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional as F

from effsparse_cli.errors import TrainingError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.gradients import call_with
from effsparse_cli.study.data.batches import (
    derive_seed,
    generator,
    plain_batches,
    restored_draws,
    seed_draws,
    shuffle,
    training_batch,
)
from effsparse_cli.study.phases.soft import soften
from effsparse_cli.study.run import Phase, Run

EVALUATION_BATCH, EVALUATION_NUMBERS = 1000, 1 << 24
"""The largest batch of test examples, and how many numbers it may have."""
Report = Callable[[int, int], None]
"""Called with the number of completed steps and the total."""


def count_steps(run: Run, phases: Sequence[Phase]) -> int:
    return sum(len(phase.epochs) for phase in phases) * run.steps_per_epoch


def train(run: Run, phases: Sequence[Phase], save: Callable[[bool], None], report: Report) -> None:
    """Train to the end of the last phase. `save` is called after every step, with True where a checkpoint is due."""
    total = count_steps(run, phases)
    report(run.progress.steps, total)
    with restored_draws(run.network.device):
        while run.progress.phase < len(phases):
            phase = phases[run.progress.phase]
            if run.progress.epoch < 0:
                with _timed(run):
                    _start(run, phase)
                save(True)
            while run.progress.epoch < phase.epochs.stop:
                _train_epoch(run, phase, save, lambda: report(run.progress.steps, total))
                save(True)
            run.progress.phase, run.progress.epoch = run.progress.phase + 1, -1


@contextmanager
def _timed(run: Run) -> Iterator[None]:
    began = time.monotonic()
    yield
    run.progress.seconds += time.monotonic() - began


def _start(run: Run, phase: Phase) -> None:
    seed_draws("start", run.task.seed, run.progress.phase)
    phase.start(run)
    run.start_optimizer()
    run.hold()
    if phase.save_after == 0:
        run.saved["early"] = run.network.state()
    run.progress.epoch, run.progress.batch = phase.epochs.start, 0


def _train_epoch(run: Run, phase: Phase, save: Callable[[bool], None], report: Callable[[], None]) -> None:
    progress, recipe, seed = run.progress, run.recipe, run.task.seed
    assert run.optimizer is not None
    for group in run.optimizer.param_groups:
        group["lr"] = recipe.lr_at(progress.epoch)
    # Each phase has its own order.
    order = shuffle(len(run.data.train), derive_seed(seed, progress.phase), progress.epoch)
    batches = torch.split(order, recipe.batch)
    run.module.train()
    while progress.batch < run.steps_per_epoch:
        draws = "step", seed, progress.phase, progress.epoch, progress.batch
        with _timed(run):
            seed_draws(*draws)  # for dropout
            x, y = training_batch(run.data, batches[progress.batch], recipe.augment, generator("augment", *draws))
            _train_step(run, phase, x.to(run.network.device), y.to(run.network.device))
        progress.batch, progress.steps = progress.batch + 1, progress.steps + 1
        report()
        save(False)
    with _timed(run):
        run.rows.append(_describe_epoch(run, phase))
    progress.epoch, progress.batch = progress.epoch + 1, 0
    progress.loss, progress.correct, progress.seen = 0.0, 0, 0
    if phase.save_after == progress.epoch:
        run.saved["early"] = run.network.state()


def _train_step(run: Run, phase: Phase, x: torch.Tensor, y: torch.Tensor) -> None:
    progress, optimizer = run.progress, run.optimizer
    assert optimizer is not None
    optimizer.zero_grad(set_to_none=True)
    outputs, penalty = _forward(run, phase, x)
    loss = F.cross_entropy(outputs, y)
    value = loss.item()
    if not math.isfinite(value):
        raise _diverged(run, phase, f"the loss is {value}")
    torch.autograd.backward(loss + penalty)
    progress.loss += value * len(y)
    progress.correct += int((outputs.argmax(1) == y).sum())
    progress.seen += len(y)
    step = (progress.epoch - phase.epochs.start) * run.steps_per_epoch + progress.batch
    if phase.adapt is not None and phase.adapt(run, step):
        return
    for parameter, pruned in run.held:
        if parameter.grad is not None:
            # With zero momentum and a zero weight, a zero gradient keeps the weight at zero.
            parameter.grad.masked_fill_(pruned, 0)
    optimizer.step()


def _forward(run: Run, phase: Phase, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | float]:
    if not phase.soft:
        return run.module(x), 0.0
    weights, penalty = soften(run, run.progress.epoch)
    return call_with(run.module, weights, {}, (x,)), penalty


@torch.no_grad()
def evaluate(run: Run, phase: Phase) -> float:
    """Return the accuracy on the test set."""
    run.module.eval()
    correct = 0
    batch = max(1, min(EVALUATION_BATCH, EVALUATION_NUMBERS // math.prod(run.data.shape)))
    for x, y in plain_batches(run.data, run.data.test, batch):
        outputs, _ = _forward(run, phase, x.to(run.network.device))
        if not bool(outputs.isfinite().all()):
            raise _diverged(run, phase, "outputs on the test set are not finite")
        correct += int((outputs.argmax(1).cpu() == y).sum())
    return correct / len(run.data.test)


def _diverged(run: Run, phase: Phase, what: str) -> TrainingError:
    place = f"epoch {run.progress.epoch}, batch {run.progress.batch} of phase {phase.name!r}"
    advice = (
        f"Try a lower learning rate than {run.recipe.lr:g}." if run.progress.steps else "Check the model and the data."
    )
    return TrainingError(f"{what} in {place}. {advice}")


def _describe_epoch(run: Run, phase: Phase) -> dict[str, Any]:
    progress = run.progress
    totals = run.network.measure(_kept_by_search(run) if phase.soft else None).totals
    return {
        "phase": phase.name,
        "epoch": progress.epoch,
        "loss": progress.loss / progress.seen,
        "train_accuracy": progress.correct / progress.seen,
        "test_accuracy": evaluate(run, phase),
        "direct_compression": totals.direct_compression,
        "effective_compression": totals.effective_compression,
    }


def _kept_by_search(run: Run) -> dict[str, Bools]:
    """Return what the soft masks would keep now: all that are greater than zero (the paper's rule)."""
    return {layer: (values > 0).cpu().numpy() for layer, values in run.soft.items()}
