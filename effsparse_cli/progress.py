"""Progress of long work. Rooms report steps here; the command line or another caller installs a display for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple

Advance = Callable[[int], None]
"""Advances a step by a number of units."""


class Step(NamedTuple):
    """A part of the work. `total` is the number of its units, if it is known; `in_bytes` if they are bytes. Things that
    consist of several units are counted by `per_item` units."""

    description: str
    total: int | None = None
    in_bytes: bool = False
    per_item: int = 1


Display = Callable[[Step], AbstractContextManager[Advance]]
"""Shows one step."""

_display: ContextVar[Display | None] = ContextVar("display", default=None)


@contextmanager
def step(description: str, total: int | None = None, *, in_bytes: bool = False, per_item: int = 1) -> Iterator[Advance]:
    """Report a step of the work. The function that it yields advances it. Steps may contain steps."""
    display = _display.get()
    if display is None:
        yield _ignore
        return
    with display(Step(description, total, in_bytes, per_item)) as advance:
        yield advance


def _ignore(amount: int) -> None:
    pass


@contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """Show all steps within this block by `display`."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)
