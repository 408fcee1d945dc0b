"""The table from aten operators to the functions that lower them: one decorated function per operator or
group of operators, in a file per family under `ops/`. Registering an operator twice is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Handler = Callable[..., Any]
F = TypeVar("F", bound=Handler)


@dataclass(frozen=True)
class Entry:
    """`lower(lowering, *arguments)` gets every argument of the operator's schema in order, defaults filled
    in, and gives a node, a value or a list of them; NotImplemented where it does not know this form. `moves`:
    its result holds elements of its operands and nothing new."""

    family: str
    lower: Handler
    moves: bool


TABLE: dict[str, Entry] = {}


def lowers(*names: str, moves: bool = False) -> Callable[[F], F]:
    """Register for aten operators: "relu" for all overloads and the in-place form, "max.dim" for one overload,
    "quantized::add" for another namespace."""

    def register(function: F) -> F:
        family = function.__module__.rsplit(".", 1)[-1]
        for name in names:
            if name in TABLE:
                raise ValueError(f"operator {name} is registered twice: {TABLE[name].family} and {family}")
            TABLE[name] = Entry(family, function, moves)
        return function

    return register


def find(namespace: str, name: str, overload: str) -> Entry | None:
    """The entry for an operator: its overload, its name, then what it is the in-place or copying form of."""
    prefix = "" if namespace in ("aten", "prims") else f"{namespace}::"
    forms = [name, name.removesuffix("_"), name.removesuffix("_copy")]
    for form in forms:
        for key in (f"{prefix}{form}.{overload}", f"{prefix}{form}"):
            if key in TABLE:
                return TABLE[key]
    return None
