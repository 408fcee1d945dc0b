"""Batches of data and the loss, from the values of --data and --loss or from Python objects."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli import files
from effsparse_cli.errors import UsageError, describe_error
from effsparse_cli.imports import import_object

if TYPE_CHECKING:
    import torch

    from effsparse_cli.pruning.gradients import Batch, Loss

INPUT_NAMES, TARGET_NAMES = ("x", "inputs", "images", "data"), ("y", "targets", "labels", "target")
LOSSES = {"cross-entropy": "cross_entropy", "mse": "mse_loss"}
"""Functions of torch.nn.functional."""


def read_batches(data: Any) -> list[Batch]:
    """Return batches of inputs and targets.

    `data` is a .npz or .pt file with one batch, named x and y or in this order; package.module:loader, which is the
    user's own code; one batch in memory; or an iterable of batches, such as a DataLoader.
    """
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if path.suffix in (".npz", ".pt", ".pth"):
            if not os.path.isfile(files.note_read(path, UsageError, "--data")):
                raise UsageError(f"--data {data}: no such file")
            return [_split_batch(_read_npz(path) if path.suffix == ".npz" else _read_pt(path), str(data))]
        loader = import_object(str(data), "--data", "a .npz or .pt file, or package.module:loader")
        source, name = _call(loader, str(data)) if callable(loader) else loader, str(data)
    else:
        source, name = data, type(data).__name__
        if isinstance(data, Mapping) or _is_pair(data):
            return [_split_batch(data, name)]
    batches = [_split_batch(batch, name) for batch in source]
    if not batches:
        raise UsageError(f"--data {name}: there are no batches")
    return batches


def _call(loader: Callable[[], Any], name: str) -> Any:
    try:
        return loader()
    except SystemExit as error:
        raise UsageError(f"--data {name} failed: {describe_error(error)}") from error


def _is_pair(data: Any) -> bool:
    """Whether this is one batch, inputs and targets, and not several batches."""
    return isinstance(data, tuple | list) and len(data) == 2 and hasattr(data[1], "shape")


def find_loss(loss: str | Loss) -> Loss:
    if callable(loss):
        return loss
    if loss in LOSSES:
        from torch.nn import functional as F

        known: Loss = getattr(F, LOSSES[loss])
        return known
    found: Loss = import_object(loss, "--loss", f"{', '.join(LOSSES)}, or package.module:function")
    return found


def to_tensor(array: NDArray[Any]) -> torch.Tensor:
    """Return numbers of any kind, byte order and memory layout as a tensor."""
    import torch

    if array.dtype.kind not in "biufc":
        raise ValueError(f"{array.dtype} is not a type of numbers")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)  # torch has few operations for other unsigned integers
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
    return torch.from_numpy(np.require(array, np.float64 if wide else array.dtype.newbyteorder("="), ["C", "W"]))


def _read_npz(path: Path) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: to_tensor(file[name]) for name in file.files}
    except Exception as error:
        reason = str(error)[:300] or type(error).__name__
        raise UsageError(f"--data {path} cannot be read: {reason}") from error


def _read_pt(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UsageError(f"--data {path} cannot be read as tensors: {error}") from error


def _split_batch(batch: Any, text: str) -> Batch:
    import torch

    if isinstance(batch, Mapping):
        x = next((batch[name] for name in INPUT_NAMES if name in batch), None)
        y = next((batch[name] for name in TARGET_NAMES if name in batch), None)
        if x is not None and y is not None:
            return x, y
        batch = list(batch.values())
    if isinstance(batch, Iterable) and not isinstance(batch, torch.Tensor) and len(pair := list(batch)) == 2:
        return pair[0], pair[1]
    raise UsageError(f"--data {text}: a batch must be a pair of inputs and targets, or have the names x and y")
