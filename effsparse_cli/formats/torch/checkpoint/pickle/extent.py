"""How large the tree of modules is that a pickle describes. A module that stands in two places is stored once and has
two names, so a small file can describe a tree that nobody could walk: it is counted here without walking it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effsparse_cli.errors import LoadError

DEEPEST = 100
NAMES, BYTES_PER_NAME = 20_000, 64
"""A tensor takes some 150 bytes in a file, unless it is there under many names."""
MODULES, BYTES_PER_MODULE = 1_000, 500
"""A module takes some 800 bytes, and following it takes some 5 ms."""
LONGEST_NAME = 1_000
VISITS = 4_000_000
"""As many as a pickle may have operations. Modules can share the dictionaries that hold their members."""

Members = Callable[[Any], Iterable[tuple[str, Any]]]


@dataclass(frozen=True)
class Extent:
    """`names` counts the tensors of a module and all below it, each under every name that it has; `elements` theirs.
    `longest` is the length of the longest name."""

    names: int = 0
    elements: int = 0
    modules: int = 0
    longest: int = 0
    height: int = 0


def check_names(path: Path, number: int, longest: int) -> None:
    if number > NAMES + path.stat().st_size // BYTES_PER_NAME:
        raise LoadError(f"{path} is refused: it names {number:,} tensors, far more than a file of its size holds")
    if longest > LONGEST_NAME:
        raise LoadError(f"{path} is refused: it holds a tensor with a name of {longest:,} characters")


def check_extent(path: Path, extent: Extent) -> None:
    """Refuses a tree that is far larger than the file which describes it."""
    size = path.stat().st_size
    if extent.height > DEEPEST:
        raise LoadError(f"{path} is refused: its modules are nested more than {DEEPEST} deep")
    check_names(path, extent.names, extent.longest)
    if extent.modules > MODULES + size // BYTES_PER_MODULE:
        raise LoadError(
            f"{path} is refused: it consists of {extent.modules:,} modules, far more than a file of its size holds"
        )


class Extents:
    """The extents of modules, each worked out once. `members` gives a module's own tensors and modules, `size_of` the
    elements of a tensor and None for a module."""

    def __init__(self, path: Path, members: Members, size_of: Callable[[Any], int | None]) -> None:
        self.path, self.members, self.size_of = path, members, size_of
        self.known: dict[int, Extent] = {}
        self.visits = 0

    def of(self, module: Any) -> Extent:
        pending, entered = [module], set[int]()
        while pending:
            current = pending[-1]
            if id(current) in self.known:
                pending.pop()
                continue
            waiting = [each for _, each, size in self._members(current) if size is None and id(each) not in self.known]
            if id(current) in entered and waiting:
                raise LoadError(f"{self.path} is damaged: a module in it contains itself")
            entered.add(id(current))
            if not waiting:
                self.known[id(current)] = self._sum(current)
            pending += waiting
        return self.known[id(module)]

    def _members(self, module: Any) -> Iterator[tuple[str, Any, int | None]]:
        for name, each in self.members(module):
            self.visits += 1
            if self.visits > VISITS:
                raise LoadError(f"{self.path} is refused: its modules hold far more than a file of its size does")
            yield name, each, self.size_of(each)

    def _sum(self, module: Any) -> Extent:
        names = elements = modules = longest = height = 0
        for name, each, size in self._members(module):
            part = self.known[id(each)] if size is None else Extent(1, size)
            names, elements, modules = names + part.names, elements + part.elements, modules + part.modules
            longest = max(longest, part.longest + len(name) + 1)
            height = max(height, part.height)
        return Extent(names, elements, modules + 1, longest, height + 1)
