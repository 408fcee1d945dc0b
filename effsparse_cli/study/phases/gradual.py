"""Gradual magnitude pruning (Zhu and Gupta 2017): the sparsity grows from its initial to its final value over the
steps t0, t0 + dt, ..., t0 + n dt, fast at first and slowly at the end."""

from __future__ import annotations

from dataclasses import dataclass

from effsparse_cli.study.run import Phase, Run


@dataclass(frozen=True)
class CubicSchedule:
    """`first` is t0, `every` dt and `count` n of the paper."""

    initial: float
    final: float
    first: int
    every: int
    count: int

    def at(self, step: int) -> float | None:
        """Return the sparsity to prune to at a step, None if nothing is pruned there. The paper's equation (1)."""
        number, rest = divmod(step - self.first, self.every)
        if rest or not 0 <= number <= self.count:
            return None
        if number == self.count:
            return self.final
        return self.final + (self.initial - self.final) * (1 - number / self.count) ** 3


def plan(run: Run) -> list[Phase]:
    schedule = make_schedule(run)

    def adapt(run: Run, step: int) -> bool:
        sparsity = schedule.at(step)
        if sparsity is not None and sparsity > 0:
            compression = run.task.compression if sparsity == schedule.final else 1 / (1 - sparsity)
            run.prune(run.plan("magnitude", compression))
        return False

    return [Phase(name="gradual", epochs=range(run.recipe.epochs), adapt=adapt)]


def make_schedule(run: Run) -> CubicSchedule:
    steps, options = run.recipe.epochs * run.steps_per_epoch, run.options
    first, last = (min(round(options[name] * steps), steps - 1) for name in ("begin", "end"))
    # An interval longer than training would prune everything at its start.
    every = max(1, min(options["every"] or run.steps_per_epoch, last - first))
    final = 1 - run.target_density
    return CubicSchedule(min(options["initial"], final), final, first, every, (last - first) // every)
