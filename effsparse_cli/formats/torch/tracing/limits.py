"""Limit what a module from a file may compute: it is run on fake tensors first, so that padding or upsampling to an
enormous size is refused before any memory is allocated."""

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

MOST_ELEMENTS, PER_INPUT, PER_STORED = 1 << 24, 1000, 16
"""Limits on the elements that a model may compute: for any model, and per element of its inputs and stored tensors."""

_files: WeakKeyDictionary[nn.Module, Path] = WeakKeyDictionary()


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
