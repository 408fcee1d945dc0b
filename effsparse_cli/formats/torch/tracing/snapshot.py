"""A snapshot of the Python state of a live model, which can be restored later.

Everything is read and written with the methods of the built-in types, because a user's own container may refuse writes
(a frozen dict), react to them, or copy itself. Only what changed is written."""

from __future__ import annotations

import operator
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

MOST_HOPS = 3
"""Most references through objects that are not modules, from a module to what is recorded. A model can refer to its
trainer, and through it to everything."""
MOST_ENTRIES = 100_000
"""Most entries of a container whose contents are recorded: a larger one is a vocabulary or a dataset, not state."""
ATOMS = (
    type(None), bool, int, float, complex, str, bytes, type, types.ModuleType, types.FunctionType, types.MethodType,
    types.BuiltinFunctionType, torch.dtype, torch.device, torch.Size, torch.Generator,
)  # fmt: skip
STDLIB = sys.stdlib_module_names - {"builtins", "collections", "types"}
"""Modules whose threads, locks, queues and loggers change on their own."""
PLAIN_TENSORS = (torch.Tensor, nn.Parameter, nn.Buffer)
Entries = list[Any]


@dataclass(frozen=True)
class ContainerType:
    """How a built-in container is read as a flat list, and filled again."""

    type: type
    read: Callable[[Any], Entries]
    fill: Callable[[Any, Entries], None]


def _mapping(kind: Any) -> ContainerType:
    def fill(container: Any, entries: Entries) -> None:
        kind.clear(container)
        for key, value in zip(entries[::2], entries[1::2], strict=True):
            kind.__setitem__(container, key, value)

    return ContainerType(kind, lambda found: [each for pair in kind.items(found) for each in pair], fill)


def _collection(kind: Any, extend: Callable[[Any, Entries], object]) -> ContainerType:
    def fill(container: Any, entries: Entries) -> None:
        kind.clear(container)
        extend(container, entries)

    return ContainerType(kind, lambda found: list(kind.__iter__(found)), fill)


CONTAINERS = (
    _mapping(OrderedDict),
    _mapping(dict),
    _collection(list, list.extend),
    _collection(set, set.update),
    _collection(deque, deque.extend),
    ContainerType(tuple, lambda found: list(tuple.__iter__(found)), lambda found, old: None),
)
DICT = CONTAINERS[1]
ATOM_TYPES, BUILT_IN = frozenset(ATOMS), frozenset(kind.type for kind in CONTAINERS)
MISSING: Any = object()


@dataclass(frozen=True)
class Plan:
    """What to record of objects of one class: descriptors of `slots`, whether attributes are recorded (`inside`), and
    how much they count towards MOST_HOPS (`hop`), None for a module, where counting restarts."""

    kind: ContainerType | None
    slots: tuple[Any, ...]
    inside: bool
    hop: int | None


@cache
def _plan(kind: Any) -> Plan | None:
    """Return what to record of a class, None if its objects cannot change."""
    if issubclass(kind, ATOMS):
        return None
    container = next((each for each in CONTAINERS if issubclass(kind, each.type)), None)
    foreign = kind.__module__.partition(".")[0] in STDLIB
    described = (each for base in kind.__mro__ if "__slots__" in vars(base) for each in vars(base).values())
    slots = tuple(each for each in described if isinstance(each, types.MemberDescriptorType))
    hop = None if issubclass(kind, nn.Module) else int(container is None)
    return Plan(container, slots, not foreign and kind not in BUILT_IN, hop)


class Snapshot:
    """The present state of some objects and of what they refer to; `restore` brings it back."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.classes: list[tuple[Any, type]] = []
        self.containers: list[tuple[Any, ContainerType, Entries]] = []
        self.slots: list[tuple[Any, Any, Any]] = []
        self.tensors: list[TensorState] = []
        seen: set[int] = set()
        pending: list[tuple[Any, int]] = [(root, 0) for root in roots]
        while pending:
            value, hops = pending.pop()
            plan = _plan(type(value))  # type: ignore[arg-type]  # mypy: a class is hashable
            if plan is not None and id(value) not in seen:
                seen.add(id(value))
                self._record(value, plan, hops, pending)

    def _record(self, value: Any, plan: Plan, hops: int, pending: list[tuple[Any, int]]) -> None:
        """Record one object and append what it refers to."""
        hops = 0 if plan.hop is None else hops + plan.hop
        held: Entries = []
        if plan.kind is not None:
            held += self._read(value, plan.kind)
        if plan.inside and hops <= MOST_HOPS:
            if plan.hop is None:
                self.classes.append((value, type(value)))
            elif isinstance(value, torch.Tensor):
                self.tensors.append(TensorState(value))
                held += (self.tensors[-1].grad, self.tensors[-1].hooks)
            attributes = _attributes(value)
            if attributes is not None:
                held += self._read(attributes, DICT)
            self.slots += (slots := [(value, slot, _read_slot(slot, value)) for slot in plan.slots])
            held += (each for _, _, each in slots)
        pending += [(each, hops) for each in held if type(each) not in ATOM_TYPES]

    def _read(self, container: Any, kind: ContainerType) -> Entries:
        entries = kind.read(container)
        self.containers.append((container, kind, entries))
        return entries if len(entries) <= MOST_ENTRIES else []

    def restore(self) -> None:
        for value, before in self.classes:
            if type(value) is not before:
                value.__class__ = before
        for container, kind, entries in self.containers:
            found = kind.read(container)
            if len(found) != len(entries) or not all(map(operator.is_, found, entries)):
                kind.fill(container, entries)
        for value, slot, held in self.slots:
            if _read_slot(slot, value) is not held:
                slot.__delete__(value) if held is MISSING else slot.__set__(value, held)
        for tensor in self.tensors:
            tensor.restore()


class TensorState:
    """The state of a tensor, except its values."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.requires_grad = tensor.requires_grad
        self.grad = tensor.grad if tensor.is_leaf else None
        self.hooks = tensor._backward_hooks
        self.data = tensor.detach() if type(tensor) in PLAIN_TENSORS and tensor.layout == torch.strided else None

    def restore(self) -> None:
        tensor = self.tensor
        if self.data is not None and _place(tensor) != _place(self.data):
            tensor.data = self.data
        if tensor._backward_hooks is not self.hooks:
            tensor._backward_hooks = self.hooks
        if tensor.is_leaf:
            if tensor.requires_grad != self.requires_grad:
                tensor.requires_grad_(self.requires_grad)
            if tensor.grad is not self.grad:
                tensor.grad = self.grad


def _attributes(value: Any) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _place(tensor: torch.Tensor) -> object:
    return tensor.untyped_storage()._cdata, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()


def _read_slot(slot: Any, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING
