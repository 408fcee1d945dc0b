"""Context managers that preserve a live model while it is traced or run: modes, attributes, values and random state.
They also silence output and disable fused kernels."""

from __future__ import annotations

import contextlib
import io
import logging
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from effsparse_cli.formats.torch.tracing.snapshot import Snapshot


@contextlib.contextmanager
def preserved_state(model: nn.Module, *arguments: Any) -> Iterator[None]:
    """Put a model into evaluation mode, and restore its Python state and that of the arguments of a call at the end.

    Modes are set directly, because a module's own train() may do more. `preserved_values` restores values of
    tensors."""
    before = Snapshot([model, *arguments])
    modes = [(module, module.training) for module in model.modules()]
    states = [(restore, get()) for get, restore in GLOBAL_STATES]
    try:
        for module, _ in modes:
            module.training = False
        with torch.random.fork_rng(devices=_cuda_devices(model)), torch.no_grad():
            yield
    finally:
        before.restore()
        for module, training in modes:
            # A scripted module keeps its mode outside of Python.
            if module.training != training:
                module.training = training
        for restore, state in states:
            restore(state)


def _autocast() -> list[tuple[str, bool, torch.dtype]]:
    return [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in AUTOCAST]


def _set_autocast(state: list[tuple[str, bool, torch.dtype]]) -> None:
    for name, enabled, dtype in state:
        torch.set_autocast_enabled(name, enabled)
        torch.set_autocast_dtype(name, dtype)


AUTOCAST = ("cpu", "cuda")
GLOBAL_STATES: tuple[tuple[Callable[[], Any], Callable[[Any], None]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (_autocast, _set_autocast),
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
)


@contextlib.contextmanager
def preserved_values(model: nn.Module, *arguments: Any, lazy: bool = True) -> Iterator[None]:
    """Restore the values of all tensors of a model and of the arguments that a run writes to.

    A tensor is copied when an operator is about to write to it, or all of them at the start if not `lazy`."""
    tensors = (state.tensor for state in Snapshot([model, *arguments]).tensors)
    dense = (tensor.untyped_storage() for tensor in tensors if tensor.layout == torch.strided)
    storages = {storage._cdata: storage for storage in dense if storage.device.type != "meta"}
    copies = _Copies(storages)
    if not lazy:
        copies.add(storages)
    try:
        with copies if lazy else contextlib.nullcontext():
            yield
    finally:
        for key, before in copies.made.items():
            storages[key].copy_(before)


class _Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Copies storages before the first operator that writes to them."""

    def __init__(self, storages: Mapping[int, torch.UntypedStorage]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages = storages
        self.made: dict[int, torch.UntypedStorage] = {}

    def add(self, keys: Iterable[int]) -> None:
        for key in keys:
            if key in self.storages and key not in self.made:
                self.made[key] = self.storages[key].clone()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        written = _written(func, args, kwargs or {})
        self.add(tensor.untyped_storage()._cdata for tensor in written if tensor.layout == torch.strided)
        return func(*args, **(kwargs or {}))


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operator writes to."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.is_mutable:
        return
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            yield from (each for each in tree_leaves(value) if isinstance(each, torch.Tensor))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence both streams, loggers and warnings: failing exports print a lot."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


@contextlib.contextmanager
def unfused_kernels() -> Iterator[None]:
    """Disable the fused kernels of attention, which would hide its operators."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _cuda_devices(model: nn.Module) -> list[int]:
    return sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
