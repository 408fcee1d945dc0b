"""The names of a model's outputs, from the structure that it returns, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from effsparse_cli.errors import UsageError

T = TypeVar("T")


class Tree(Protocol):
    """The structure of a value: torch's own, or one that was read from a file."""

    @property
    def context(self) -> Any: ...

    def is_leaf(self) -> bool: ...

    def children(self) -> list[Any]: ...


def output_names(spec: Tree) -> list[str]:
    """One name per leaf of a pytree: the keys where it has some, otherwise output_0, output_1 ..."""
    if spec.is_leaf():
        return ["output_0"]
    keys = _keys(spec) or [f"output_{i}" for i in range(len(spec.children()))]
    return [".".join((key, *path)) for key, child in zip(keys, spec.children(), strict=True) for path in _paths(child)]


def _paths(spec: Tree) -> list[tuple[str, ...]]:
    if spec.is_leaf():
        return [()]
    keys = _keys(spec) or [str(i) for i in range(len(spec.children()))]
    return [(key, *path) for key, child in zip(keys, spec.children(), strict=True) for path in _paths(child)]


def _keys(spec: Tree) -> list[str] | None:
    """Dicts and their kin keep their keys as context, named tuples their type."""
    context = spec.context
    fields = getattr(context, "_fields", None)
    if fields:
        return list(fields)
    if isinstance(context, list | tuple) and context and isinstance(context[0], list | tuple):
        context = context[0]
    if isinstance(context, list | tuple) and len(context) == len(spec.children()):
        return [str(key) for key in context]
    return None


def select_outputs(named: Sequence[tuple[str, T]], wanted: Sequence[str]) -> list[tuple[str, T]]:
    """The outputs that the user named, by name or position; all when none is named. A name that stands for
    several (`past_key_values`) takes all of them."""
    if not wanted:
        return list(named)
    picked: list[tuple[str, T]] = []
    for want in wanted:
        found = [pair for pair in named if pair[0] == want or pair[0].startswith(f"{want}.")]
        if not found and want.lstrip("-").isdigit() and -len(named) <= int(want) < len(named):
            found = [named[int(want)]]
        if not found:
            there = ", ".join(name for name, _ in named)
            raise UsageError(f"the model has no output {want!r}; its outputs are: {there}")
        picked += [pair for pair in found if pair not in picked]
    return picked
