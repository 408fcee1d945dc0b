"""The structure of a live module: everything that its trace may depend on, as one value that can be compared.

It excludes the values of parameters and buffers, which a trace does not depend on, and the training mode, because
traces are taken in evaluation mode. It keeps nothing alive.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import nn

SIMPLE_TYPES = (bool, int, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.layout)
MAX_DEPTH = 1


class Identity:
    """Compares an object by identity: equal to another only while both refer to the same live object."""

    def __init__(self, thing: object) -> None:
        self.thing: Callable[[], object]
        try:
            self.thing = weakref.ref(thing)
        except TypeError:
            self.thing = lambda: thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.thing() is not None and self.thing() is other.thing()

    __hash__ = None  # type: ignore[assignment]


def read_structure(model: nn.Module) -> object:
    """Return the structure of a module. If it is equal, the same operators run on the tensors of the same names."""
    return _Walk(model).whole()


class _Walk:
    """One walk over a module. `first` numbers tensors and their memory in order of appearance, which shows what is
    shared.
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = list(model.named_modules(remove_duplicate=False))
        self.own = {id(module): path for path, module in reversed(self.modules)}
        self.first: dict[tuple[str, int], int] = {}
        self.inside: set[int] = set()

    def whole(self) -> object:
        return [(path, self.module(module)) for path, module in self.modules]

    def module(self, module: nn.Module) -> object:
        parts: list[object] = [type(module), self.own.get(id(module))]
        for name, held in vars(module).items():
            if name in ("_parameters", "_buffers"):
                parts += [(key, self.tensor(value)) for key, value in held.items()]
            elif isinstance(held, torch.Tensor):
                parts.append((name, self.tensor(held)))
            elif name not in ("training", "_modules"):
                parts.append((name, self.value(held, MAX_DEPTH)))
        return parts

    def tensor(self, tensor: torch.Tensor | None) -> object:
        """Describe a named tensor: type, shape, memory layout, and whether it appeared before."""
        if tensor is None:
            return None
        description = (type(tensor), tuple(tensor.shape), tensor.dtype, tensor.device, tensor.layout)
        if tensor.layout != torch.strided or tensor.is_meta:
            return (*description, self.number("tensor", id(tensor)))
        memory = self.number("memory", tensor.untyped_storage()._cdata)
        return (*description, tensor.stride(), tensor.storage_offset(), memory, self.number("tensor", id(tensor)))

    def number(self, kind: str, key: int) -> int:
        return self.first.setdefault((kind, key), len(self.first))

    def value(self, value: object, depth: int) -> object:
        """Describe any other attribute of a module; objects in it are inspected up to `depth` levels deep."""
        if isinstance(value, SIMPLE_TYPES):
            return (type(value), value)
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, np.ndarray):
            return (value.dtype, value.shape, value.tobytes())
        if isinstance(value, torch.Tensor):
            return (Identity(value), self.tensor(value), value.data_ptr() if value.layout == torch.strided else 0)
        if id(value) in self.own:
            return ("module", self.own[id(value)])
        if id(value) in self.inside:
            return "itself"
        self.inside.add(id(value))
        try:
            return self.composite(value, depth)
        finally:
            self.inside.discard(id(value))

    def composite(self, value: Any, depth: int) -> object:
        def each(values: Iterable[object]) -> list[object]:
            return [self.value(v, depth) for v in values]

        if isinstance(value, dict):
            return (type(value), each(value.keys()), each(value.values()))
        if isinstance(value, list | tuple | deque):
            return (type(value), each(value))
        if isinstance(value, set | frozenset):
            return (type(value), sorted(map(repr, value)))
        if isinstance(value, nn.Module):
            return (Identity(value), [(path, self.module(module)) for path, module in value.named_modules()])
        if isinstance(value, FunctionType):
            return (Identity(value), each(cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)))
        if isinstance(value, MethodType):
            return (Identity(value.__func__), self.value(value.__self__, depth))
        if isinstance(value, functools.partial):
            return each((value.func, value.args, value.keywords))
        if depth == 0 or not hasattr(value, "__dict__"):
            return Identity(value)
        return (Identity(value), [(name, self.value(held, depth - 1)) for name, held in vars(value).items()])


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
