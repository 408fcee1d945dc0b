"""The interface between a command that has many independent tasks and whatever runs them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """Memory in bytes and CPU time in seconds; `mapped` bytes of files may be mapped in addition."""

    memory: int
    seconds: float
    mapped: int = 0

    @property
    def memory_exceeded(self) -> str:
        return f"it exceeded the memory limit of {self.memory / 1e9:.3g} GB; --memory-limit allows more"

    @property
    def time_exceeded(self) -> str:
        return f"it exceeded the time limit of {self.seconds:.3g} s; --time-limit allows more"


@dataclass(frozen=True)
class Failure:
    """Why a task has no result."""

    reason: str


class TaskProgress(NamedTuple):
    """How far a running task is. `total` is None if nobody knows. `level` is 0 for the task itself, more for steps
    within its steps."""

    description: str
    done: int
    total: int | None
    level: int = 0


ShowProgress = Callable[[int, TaskProgress], None]
"""Called with the position of a task and its progress."""


class Engine(Protocol):
    """Runs a function on many tasks, in other processes. `gpus` is what each of them reserves."""

    @property
    def gpus(self) -> float: ...

    def run(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Result],
        *,
        limits: Sequence[Limits] | None = None,
        preload: Sequence[str] = (),
        show: ShowProgress | None = None,
    ) -> Generator[tuple[int, Result | Failure], None, None]:
        """Yield the position and the outcome of each task as it ends: its result, or a `Failure` if the function raised
        an unexpected error, or its process exceeded its limits, crashed or was killed.

        `function` must be importable by name, and tasks and results must pickle. `preload` names modules that every
        task needs. Steps that a task reports (`effsparse_cli.progress.step`) are passed to `show`. Closing the
        generator ends all tasks.
        """


def in_order(outcomes: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Return outcomes in the order of their tasks, each as early as possible."""
    waiting: dict[int, Any] = {}
    following = 0
    for position, outcome in outcomes:
        waiting[position] = outcome
        while following in waiting:
            yield waiting.pop(following)
            following += 1
