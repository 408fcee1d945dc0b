"""Name the outputs of a model after the structure that it returns, and select some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from effsparse_cli.errors import UsageError

T = TypeVar("T")


class Tree(Protocol):
    """The structure of a value: torch's TreeSpec, or one that was read from a file."""

    @property
    def context(self) -> Any: ...

    def is_leaf(self) -> bool: ...

    def children(self) -> list[Any]: ...


def output_names(spec: Tree) -> list[str]:
    """Return one name per leaf of a pytree: its keys if it has any, otherwise output_0, output_1 ..."""
    return [".".join(path) or "output_0" for path in _paths(spec, "output_")]


def _paths(spec: Tree, prefix: str = "") -> list[tuple[str, ...]]:
    if spec.is_leaf():
        return [()]
    keys = _keys(spec) or [f"{prefix}{i}" for i in range(len(spec.children()))]
    return [(key, *path) for key, child in zip(keys, spec.children(), strict=True) for path in _paths(child)]


def _keys(spec: Tree) -> list[str] | None:
    """Return the keys of a node: dicts have them as context, named tuples in their type."""
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
    """Return the outputs that the user selected by name or position, all if none is selected. A prefix such as
    `past_key_values` selects all outputs below it."""
    if not wanted:
        return list(named)
    picked: list[tuple[str, T]] = []
    for want in wanted:
        matches = [pair for pair in named if pair[0] == want or pair[0].startswith(f"{want}.")]
        if not matches and want.lstrip("-").isdigit() and -len(named) <= int(want) < len(named):
            matches = [named[int(want)]]
        if not matches:
            names = ", ".join(name for name, _ in named)
            raise UsageError(f"the model has no output {want!r}; its outputs are: {names}")
        picked += [pair for pair in matches if pair not in picked]
    return picked
