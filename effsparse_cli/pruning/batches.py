"""Batches of data and the loss, from the values of --data and --loss."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from effsparse_cli import files
from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.pruning.gradients import Batch, Loss

INPUT_NAMES, TARGET_NAMES = ("x", "inputs", "images", "data"), ("y", "targets", "labels", "target")
LOSSES = {"cross-entropy": "cross_entropy", "mse": "mse_loss"}
"""Functions of torch.nn.functional."""


def read_batches(text: str) -> list[Batch]:
    """Read one batch from a .npz or .pt file, or all batches of package.module:loader, which is the user's own code.

    A file holds inputs and targets, named x and y or in this order.
    """
    path = Path(text)
    if path.suffix in (".npz", ".pt", ".pth"):
        if not os.path.isfile(files.note_read(path, UsageError, "--data")):
            raise UsageError(f"--data {text}: no such file")
        return [_split_batch(_read_npz(path) if path.suffix == ".npz" else _read_pt(path), text)]
    loader = import_object(text, "--data", "a .npz or .pt file, or package.module:loader")
    batches = [_split_batch(batch, text) for batch in (loader() if callable(loader) else loader)]
    if not batches:
        raise UsageError(f"--data {text}: the loader yields no batches")
    return batches


def find_loss(text: str) -> Loss:
    if text in LOSSES:
        from torch.nn import functional as F

        known: Loss = getattr(F, LOSSES[text])
        return known
    loss: Callable[..., Any] = import_object(text, "--loss", f"{', '.join(LOSSES)}, or package.module:function")
    return loss


def import_object(text: str, option: str, choices: str) -> Any:
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise UsageError(f"{option} {text}: use {choices}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{option} {text} cannot be imported: {error}. Run the command where {module} can be imported"
        ) from error


def _read_npz(path: Path) -> Mapping[str, Any]:
    import torch

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}
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
