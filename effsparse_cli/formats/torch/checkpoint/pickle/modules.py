"""Find the tensors of a pickled module, by the names of its state_dict, without restoring the module. The tree of
modules is measured before it is walked: a module that is used twice is stored once and has two names, so a small file
can describe a tree that is too large to walk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor, size_of

MAX_DEPTH = 100
MAX_NAMES, BYTES_PER_NAME = 20_000, 64
"""A tensor needs about 150 bytes in a file, unless it has many names."""
MAX_MODULES, BYTES_PER_MODULE = 1_000, 500
"""A module needs about 800 bytes, and tracing it about 5 ms."""
MAX_CHARACTERS = 20_000_000
"""The number of characters in all names together, beyond the size of the file."""
MAX_VISITS = 4_000_000
"""The number of operations that a pickle may have. Modules can share the dictionaries of their members."""


@dataclass(frozen=True)
class Extent:
    """The size of a module and its submodules: `names` counts tensors once per name, `elements` their elements, and
    `longest` is the length of the longest name."""

    names: int = 0
    elements: int = 0
    modules: int = 0
    longest: int = 0
    height: int = 0


def check_names(path: Path, number: int, longest: int) -> None:
    size = path.stat().st_size
    if number > MAX_NAMES + size // BYTES_PER_NAME:
        raise LoadError(
            f"{path} is refused: it describes {number:,} tensors, far more than fit into a file of its size."
        )
    if number * longest > MAX_CHARACTERS + size:
        raise LoadError(f"{path} is refused: {number:,} tensors have names of up to {longest:,} characters.")


def check_extent(path: Path, module: Inert) -> None:
    """Refuse a tree of modules that is far larger than its file."""
    extent, size = Extents(path).of(module), path.stat().st_size
    if extent.height > MAX_DEPTH:
        raise LoadError(f"{path} is refused: its modules are nested more than {MAX_DEPTH} levels deep.")
    check_names(path, extent.names, extent.longest)
    if extent.modules > MAX_MODULES + size // BYTES_PER_MODULE:
        raise LoadError(
            f"{path} is refused: it describes {extent.modules:,} modules, far more than fit into a file of its size."
        )


class Extents:
    """The extents of the modules in a file, each computed once."""

    def __init__(self, path: Path) -> None:
        self.path = path
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
                raise LoadError(f"{self.path} is damaged: a module contains itself. Download it again.")
            entered.add(id(current))
            if not waiting:
                self.known[id(current)] = self._sum(current)
            pending += waiting
        return self.known[id(module)]

    def _members(self, module: Any) -> Iterator[tuple[str, Any, int | None]]:
        """Yield the tensors and submodules of a module, and the number of elements of tensors."""
        for name, each in _members(self.path, module):
            self.visits += 1
            if self.visits > MAX_VISITS:
                raise LoadError(
                    f"{self.path} is refused: its modules have far more members than fit into a file of its size."
                )
            yield name, each, size_of(each) if is_tensor(each) else None

    def _sum(self, module: Any) -> Extent:
        names = elements = modules = longest = height = 0
        for name, each, size in self._members(module):
            part = self.known[id(each)] if size is None else Extent(1, size)
            names, elements, modules = names + part.names, elements + part.elements, modules + part.modules
            longest = max(longest, part.longest + len(name) + 1)
            height = max(height, part.height)
        return Extent(names, elements, modules + 1, longest, height + 1)


def is_module(value: object) -> bool:
    if not isinstance(value, Inert) or not isinstance(value.state, Mapping):
        return False
    return value.of.startswith("__torch__.") or "_modules" in value.state


def is_opaque(value: object) -> bool:
    """Return whether an object can be read only by the code of its class."""
    return isinstance(value, Inert) and not is_module(value) and not is_tensor(value) and value.items is None


def named_tensors(path: Path, module: Inert) -> dict[str, Inert]:
    """Return the tensors by the names of the state_dict; those of tied modules have several."""
    check_extent(path, module)
    tensors: dict[str, Inert] = {}
    pending: list[tuple[str, Inert]] = [("", module)]
    while pending:
        prefix, current = pending.pop()
        members = list(_members(path, current))
        tensors |= {prefix + name: value for name, value in members if is_tensor(value)}
        pending += [(f"{prefix}{name}.", value) for name, value in reversed(members) if not is_tensor(value)]
    return tensors


def _members(path: Path, module: Inert) -> Iterator[tuple[str, Inert]]:
    """Yield the tensors and submodules of a module by name."""
    for name, value in _stored(module):
        if is_tensor(value) or is_module(value):
            yield name, value
        elif value is not None:
            raise LoadError(
                f"{path}: {name} is a {getattr(value, 'of', type(value).__name__)}, whose weights cannot be read as "
                "data. If you trust the file, --trust runs its code."
            )


def _stored(module: Inert) -> Iterator[tuple[str, Any]]:
    if module.of.startswith("__torch__."):
        yield from ((str(k), v) for k, v in module.state.items() if is_tensor(v) or is_module(v))
        return
    hidden = module.state.get("_non_persistent_buffers_set")
    hidden = hidden if isinstance(hidden, set) else ()
    for holder in ("_parameters", "_buffers", "_modules"):
        held = module.state.get(holder)
        for name, value in held.items() if isinstance(held, Mapping) else ():
            if holder != "_buffers" or name not in hidden:
                yield str(name), value
