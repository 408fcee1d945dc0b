"""Limit the cost of building a model by the content of its files: a small config.json can describe a model that needs
hours and terabytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from effsparse_cli.errors import RefusedError

SPARE_ELEMENTS = 1 << 22
"""For parameters that are not in the file: tables that the library computes."""
SPARE_MODULES = 20_000
SPARE_BYTES = 1 << 30
"""For buffers, such as masks over positions."""


@dataclass(frozen=True)
class Limits:
    """The number of tensors in the file, and of the elements that they can represent: integers may be packed, down to
    one bit each."""

    tensors: int
    elements: int

    @classmethod
    def of(cls, stored: Mapping[str, torch.Tensor]) -> Limits:
        elements = sum(
            t.numel() if t.is_floating_point() else t.numel() * t.element_size() * 8 for t in stored.values()
        )
        return cls(len(stored), elements)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses to allocate more memory for tensors than `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.room = room

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.room -= _size(func, args, kwargs or {})
        if self.room < 0:
            raise RefusedError(
                "building the model of config.json needs far more memory than its files. Check that they match."
            )
        return func(*args, **(kwargs or {}))


def _size(func: Any, args: Any, kwargs: dict[str, Any]) -> int:
    """Return the bytes of the results of an operator without running it; views need none."""
    operands = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
    if any(t.is_meta for t in operands) or func.is_view:
        return 0
    try:
        given, named = tree_map(lambda v: v.to("meta") if isinstance(v, torch.Tensor) else v, (args, kwargs))
        on_meta = {**named, "device": torch.device("meta")} if not operands and "device" in _names(func) else named
        made = tree_flatten(func(*given, **on_meta))[0]
    except Exception:
        return 0
    return sum(t.numel() * t.element_size() for t in made if isinstance(t, torch.Tensor))


def _names(func: Any) -> set[str]:
    return {argument.name for argument in func._schema.arguments}


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """Count modules and parameters while they are made, and refuse too many."""
    modules, elements = 50 * limits.tensors + SPARE_MODULES, 8 * limits.elements + SPARE_ELEMENTS
    make, register = nn.Module.__init__, nn.Module.register_parameter

    def count_module(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        nonlocal modules
        modules -= 1
        if modules < 0:
            raise RefusedError(
                f"the model of config.json has far more layers than its files have tensors ({limits.tensors:,}). Check "
                "that they belong together."
            )
        make(module, *args, **kwargs)

    def count_parameter(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal elements
        elements -= parameter.numel() if parameter is not None else 0
        if elements < 0:
            raise RefusedError(
                f"the model of config.json has far more parameters than its files have elements ({limits.elements:,}). "
                "Check that they belong together."
            )
        register(module, name, parameter)

    nn.Module.__init__, nn.Module.register_parameter = count_module, count_parameter  # type: ignore[assignment,method-assign]
    try:
        with _Watch(SPARE_BYTES + 8 * limits.elements):
            yield
    finally:
        nn.Module.__init__, nn.Module.register_parameter = make, register  # type: ignore[method-assign]
