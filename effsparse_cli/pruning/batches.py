"""Batches of data and the loss, from what --data and --loss say."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from effsparse_cli import files
from effsparse_cli.errors import UsageError
from effsparse_cli.pruning.gradients import Batch, Loss

INPUTS, TARGETS = ("x", "inputs", "images", "data"), ("y", "targets", "labels", "target")
LOSSES: dict[str, Loss] = {"cross-entropy": F.cross_entropy, "mse": F.mse_loss}


def read_batches(text: str) -> list[Batch]:
    """A file of one batch, .npz or .pt, with inputs and targets as x and y or in this order; or package.module:loader,
    the user's own code, whose batches are all taken."""
    path = Path(text)
    if path.suffix in (".npz", ".pt", ".pth"):
        if not os.path.isfile(files.note_read(path, UsageError, "--data")):
            raise UsageError(f"--data {text}: there is no such file")
        return [_pair(_npz(path) if path.suffix == ".npz" else _pt(path), text)]
    loader = find_object(text, "--data", "a .npz or .pt file, or package.module:loader")
    found = [_pair(batch, text) for batch in (loader() if callable(loader) else loader)]
    if not found:
        raise UsageError(f"--data {text}: the loader gives no batches")
    return found


def find_loss(text: str) -> Loss:
    if text in LOSSES:
        return LOSSES[text]
    found: Callable[..., Any] = find_object(text, "--loss", f"{', '.join(LOSSES)}, or package.module:function")
    return found


def find_object(text: str, option: str, known: str) -> Any:
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise UsageError(f"{option} {text}: give {known}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{option} {text} cannot be imported: {error}. Run it where {module} can be found") from error


def _npz(path: Path) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}
    except Exception as error:
        reason = str(error)[:300] or type(error).__name__
        raise UsageError(f"--data {path} cannot be read: {reason}") from error


def _pt(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UsageError(f"--data {path} cannot be read as plain tensors: {error}") from error


def _pair(batch: Any, text: str) -> Batch:
    if isinstance(batch, Mapping):
        x = next((batch[name] for name in INPUTS if name in batch), None)
        y = next((batch[name] for name in TARGETS if name in batch), None)
        if x is not None and y is not None:
            return x, y
        batch = list(batch.values())
    if isinstance(batch, Iterable) and not isinstance(batch, torch.Tensor) and len(both := list(batch)) == 2:
        return both[0], both[1]
    raise UsageError(f"--data {text}: a batch is inputs and targets, as a pair or under the names x and y")
