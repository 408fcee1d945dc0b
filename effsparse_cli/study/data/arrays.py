"""Data sets of arrays: a .npz file, or what the user's own code returns."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from effsparse_cli import files
from effsparse_cli.errors import EffsparseError, LoadError, UsageError, describe_error, first_line
from effsparse_cli.imports import import_object
from effsparse_cli.study.data.dataset import Data, Source, Split, Stored, make_data
from effsparse_cli.study.data.files import reading

NAMES = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
)
"""As in the files of Keras, and of MedMNIST."""
CHANNELS = (1, 3)
CONTRACT = "((x_train, y_train), (x_test, y_test)), or a training and a test Dataset of torch"


def read_npz(source: Source) -> Data:
    path = Path(source.path)
    if not files.note_read(path).is_file():
        raise LoadError(f"the data file {path} does not exist.")
    if not zipfile.is_zipfile(path):
        raise LoadError(f"{path} is not a .npz file: numpy.savez writes them.")
    with reading(path), np.load(path, allow_pickle=False) as file:
        names = next((names for names in NAMES if all(name in file.files for name in names)), None)
        if names is None:
            raise LoadError(f"{path} needs arrays {', '.join(NAMES[0])}; it has {', '.join(file.files) or 'none'}.")
        x_train, y_train, x_test, y_test = (file[name] for name in names)
    train, test = _to_split((x_train, y_train), str(path)), _to_split((x_test, y_test), str(path))
    return _checked(train, test, source)


def read_code(source: Source) -> Data:
    """Call package.module:function, which returns the training and the test set: pairs of examples and labels, or
    data sets of torch."""
    function = import_object(source.path, "data: code", "package.module:function")
    try:
        found = function() if callable(function) else function
    except EffsparseError:
        raise
    except Exception as error:
        raise UsageError(f"data: {source.path} failed: {describe_error(error)}") from error
    if isinstance(found, Mapping) and {"train", "test"} <= found.keys():
        found = found["train"], found["test"]
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise UsageError(f"data: {source.path} must return two data sets: {CONTRACT}.")
    train, test = (_to_split(each, source.path) for each in found)
    return _checked(train, test, source)


def _checked(train: Split, test: Split, source: Source) -> Data:
    shapes = [tuple(split.examples.read(torch.arange(0)).shape[1:]) for split in (train, test)]
    if shapes[0] != shapes[1]:
        named = ["x".join(map(str, shape)) for shape in shapes]
        raise LoadError(f"{source.path}: training examples have shape {named[0]}, test examples {named[1]}.")
    return make_data(train, test, source)


def _to_split(value: Any, where: str) -> Split:
    if isinstance(value, tuple | list) and len(value) == 2 and all(hasattr(each, "shape") for each in value):
        x, y = (torch.as_tensor(each) for each in value)
    elif hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        pairs = [value[i] for i in range(len(value))]
        try:
            x = torch.stack([torch.as_tensor(pair[0]) for pair in pairs])
            y = torch.tensor([int(pair[1]) for pair in pairs])
        except Exception as error:
            reason = first_line(error)
            raise UsageError(f"data: {where} must return {CONTRACT}, with examples of one shape: {reason}") from error
    else:
        raise UsageError(f"data: {where} must return {CONTRACT}.")
    y = y.squeeze(-1) if y.ndim == 2 and y.shape[-1] == 1 else y
    if y.ndim != 1 or y.is_floating_point() or y.is_complex():
        raise LoadError(f"{where}: labels must be one class number for each example.")
    if x.ndim < 2 or x.is_complex():
        raise LoadError(f"{where}: examples must be arrays of numbers, at least one each.")
    if x.is_floating_point() and not bool(x.isfinite().all()):
        raise LoadError(f"{where}: some examples are not finite numbers.")
    return Split(Stored(_channels_first(x)), y.long())


def _channels_first(x: torch.Tensor) -> torch.Tensor:
    if x.ndim == 3:
        return x.unsqueeze(1)
    if x.ndim == 4 and x.shape[-1] in CHANNELS and x.shape[1] not in CHANNELS:
        return x.permute(0, 3, 1, 2).contiguous()
    return x
