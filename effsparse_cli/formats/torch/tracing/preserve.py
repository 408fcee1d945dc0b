"""Run a live model without a trace of it: modes, attributes, values and random state are preserved, output is silenced,
and fused kernels are disabled. A module from a file is run on fake tensors first, so that padding or upsampling to an
enormous size is refused before any memory is allocated."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.tracing.snapshot import Snapshot

MOST_ELEMENTS, PER_INPUT, PER_STORED = 1 << 24, 1000, 16
"""Limits on the elements that a model may compute: for any model, and per element of its inputs and stored tensors."""

_files: WeakKeyDictionary[nn.Module, Path] = WeakKeyDictionary()


@contextlib.contextmanager
def preserved_state(model: nn.Module, *arguments: Any) -> Iterator[None]:
    """Put a model into evaluation mode, and restore its Python state and that of the arguments of a call at the end.
    Modes are set directly, because a module's own train() may do more."""
    before = Snapshot([model, *arguments])
    modes = [(module, module.training) for module in model.modules()]
    states = [(restore, get()) for get, restore in GLOBAL_STATES]
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    try:
        for module, _ in modes:
            module.training = False
        with torch.random.fork_rng(devices=devices), torch.no_grad():
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
    """Restore the values of all tensors of a model and of the arguments that a run writes to. A tensor is copied when
    an operator is about to write to it, or all of them at the start if not `lazy`."""
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


def remember_file(model: nn.Module, path: Path) -> None:
    """Remember that the sizes in a model come from a file."""
    _files[model] = path


def check_values(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse a model from a file that computes too much. A model that does not run at all is reported elsewhere."""
    path = _files.get(model)
    if path is None:
        return
    entered = sum(t.numel() for t in tree_leaves((args, dict(kwargs))) if isinstance(t, torch.Tensor))
    stored = sum(t.numel() for t in (*model.parameters(), *model.buffers()))
    counting = _ElementCounter(MOST_ELEMENTS + PER_INPUT * entered + PER_STORED * stored)
    try:
        with preserved_state(model), unfused_kernels(), quiet(), FakeTensorMode(allow_non_fake_inputs=True), counting:
            model(*args, **kwargs)
    except _ExcessError as excess:
        raise LoadError(
            f"{path} was refused: for an input of {entered:,} elements the model computes a tensor of {excess.shape}, "
            "or many that are as large together. A layer in it has a size that its weights do not explain."
        ) from excess
    except Exception:
        return


class _ExcessError(Exception):
    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape = "x".join(map(str, shape))


class _ElementCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, left: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = left

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.left -= math.prod(tensor.shape)
                if self.left < 0:
                    raise _ExcessError(tensor.shape)
        return result
