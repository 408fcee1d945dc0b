"""A module that was read from a file as data is run on tensors without memory before anything else is done with it, so
that a padding or an upsampling of millions is refused and not computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, quiet, unfused_kernels

ROOM, PER_INPUT, PER_STORED = 1 << 24, 1000, 16
"""Limits on the elements that a model may compute: a constant, and factors for each element of its inputs and of its
stored tensors."""

_files: WeakKeyDictionary[nn.Module, Path] = WeakKeyDictionary()


def remember_file(model: nn.Module, path: Path) -> None:
    """The sizes in the model are what the file says."""
    _files[model] = path


def check_values(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """For a model of a file. Whether it runs at all is for others to find out."""
    path = _files.get(model)
    if path is None:
        return
    given = sum(t.numel() for t in tree_leaves((args, dict(kwargs))) if isinstance(t, torch.Tensor))
    stored = sum(t.numel() for t in (*model.parameters(), *model.buffers()))
    counting = _Counting(ROOM + PER_INPUT * given + PER_STORED * stored)
    try:
        with preserved_state(model), unfused_kernels(), quiet(), FakeTensorMode(allow_non_fake_inputs=True), counting:
            model(*args, **kwargs)
    except _ExcessError as excess:
        raise LoadError(
            f"{path} is refused: on an input of {given:,} elements the model computes a value of {excess.shape}, or "
            "many that are as large together. A layer in it has a size that its weights do not explain."
        ) from excess
    except Exception:
        return


class _ExcessError(Exception):
    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape = "x".join(map(str, shape))


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
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
