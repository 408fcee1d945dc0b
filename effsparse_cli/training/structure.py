"""How a live module is built: everything that a trace of it may depend on, as one value that can be compared.

Numbers in parameters and buffers are left out, because a trace does not look at them; so is the mode, because every
trace is taken in evaluation mode. Nothing is kept alive by it."""

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

PLAIN = (bool, int, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.layout)
HOPS = 1


class Same:
    """Stands for an object that is compared by identity: equal only while it is alive and the same."""

    def __init__(self, thing: object) -> None:
        self.thing: Callable[[], object]
        try:
            self.thing = weakref.ref(thing)
        except TypeError:
            self.thing = lambda: thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing() is not None and self.thing() is other.thing()

    __hash__ = None  # type: ignore[assignment]


def structure(model: nn.Module) -> object:
    """Equal values: the same operators run on the same tensors, by the names that the module has for them."""
    return _Walk(model).whole()


class _Walk:
    """One walk over a module. `first` numbers tensors and their memory as they are met, so that it shows which of them
    are shared."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = list(model.named_modules(remove_duplicate=False))
        self.own = {id(module): path for path, module in reversed(self.modules)}
        self.first: dict[tuple[str, int], int] = {}
        self.inside: set[int] = set()

    def whole(self) -> object:
        return [(path, self.module(module)) for path, module in self.modules]

    def module(self, module: nn.Module) -> object:
        told: list[object] = [type(module), self.own.get(id(module))]
        for name, held in vars(module).items():
            if name in ("_parameters", "_buffers"):
                told += [(key, self.tensor(value)) for key, value in held.items()]
            elif isinstance(held, torch.Tensor):
                told.append((name, self.tensor(held)))
            elif name not in ("training", "_modules"):
                told.append((name, self.value(held, HOPS)))
        return told

    def tensor(self, tensor: torch.Tensor | None) -> object:
        """A tensor that is found by its name: its form, and whether it is one that was met before."""
        if tensor is None:
            return None
        facts = (type(tensor), tuple(tensor.shape), tensor.dtype, tensor.device, tensor.layout)
        if tensor.layout != torch.strided or tensor.is_meta:
            return (*facts, self.number("tensor", id(tensor)))
        memory = self.number("memory", tensor.untyped_storage()._cdata)
        return (*facts, tensor.stride(), tensor.storage_offset(), memory, self.number("tensor", id(tensor)))

    def number(self, kind: str, key: int) -> int:
        return self.first.setdefault((kind, key), len(self.first))

    def value(self, value: object, hops: int) -> object:
        """What a module holds beside its tensors; objects in it are looked into `hops` deep."""
        if isinstance(value, PLAIN):
            return (type(value), value)
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, np.ndarray):
            return (value.dtype, value.shape, value.tobytes())
        if isinstance(value, torch.Tensor):
            return (Same(value), self.tensor(value), value.data_ptr() if value.layout == torch.strided else 0)
        if id(value) in self.own:
            return ("module", self.own[id(value)])
        if id(value) in self.inside:
            return "itself"
        self.inside.add(id(value))
        try:
            return self.composite(value, hops)
        finally:
            self.inside.discard(id(value))

    def composite(self, value: Any, hops: int) -> object:
        def each(values: Iterable[object]) -> list[object]:
            return [self.value(v, hops) for v in values]

        if isinstance(value, dict):
            return (type(value), each(value.keys()), each(value.values()))
        if isinstance(value, list | tuple | deque):
            return (type(value), each(value))
        if isinstance(value, set | frozenset):
            return (type(value), sorted(map(repr, value)))
        if isinstance(value, nn.Module):
            return (Same(value), [(path, self.module(module)) for path, module in value.named_modules()])
        if isinstance(value, FunctionType):
            return (Same(value), each(cell.cell_contents for cell in value.__closure__ or () if _filled(cell)))
        if isinstance(value, MethodType):
            return (Same(value.__func__), self.value(value.__self__, hops))
        if isinstance(value, functools.partial):
            return each((value.func, value.args, value.keywords))
        if hops == 0 or not hasattr(value, "__dict__"):
            return Same(value)
        return (Same(value), [(name, self.value(held, hops - 1)) for name, held in vars(value).items()])


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
