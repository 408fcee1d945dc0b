"""Find the tensors of a pickled module, by the names of its state_dict, without restoring the module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.extent import Extents, check_extent
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor, size_of


def is_module(value: object) -> bool:
    if not isinstance(value, Inert) or not isinstance(value.state, Mapping):
        return False
    return value.of.startswith("__torch__.") or "_modules" in value.state


def is_opaque(value: object) -> bool:
    """Return whether an object can be read only by the code of its class."""
    return isinstance(value, Inert) and not is_module(value) and not is_tensor(value) and value.items is None


def named_tensors(path: Path, module: Inert) -> dict[str, Inert]:
    """Return the tensors by the names of the state_dict; those of tied modules have several."""
    check_extent(path, extents(path).of(module))
    tensors: dict[str, Inert] = {}
    pending: list[tuple[str, Inert]] = [("", module)]
    while pending:
        prefix, current = pending.pop()
        members = list(_members(path, current))
        tensors |= {prefix + name: value for name, value in members if is_tensor(value)}
        pending += [(f"{prefix}{name}.", value) for name, value in reversed(members) if not is_tensor(value)]
    return tensors


def extents(path: Path) -> Extents:
    """Return the extents of the modules in a file."""
    return Extents(path, partial(_members, path), lambda each: size_of(each) if is_tensor(each) else None)


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
