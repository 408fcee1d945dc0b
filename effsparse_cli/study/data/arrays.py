"""Data sets of arrays: a .npz file, or what the user's own code returns."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from effsparse_cli import files
from effsparse_cli.errors import EffsparseError, LoadError, UsageError, describe_error
from effsparse_cli.imports import import_object
from effsparse_cli.pruning.batches import to_tensor
from effsparse_cli.study.data.batches import restored_draws, seed_draws
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
        raise LoadError(f"{path} is damaged, or not a .npz file: numpy.savez writes them.")
    with reading(path, "Save its arrays again, as numbers."), np.load(path, allow_pickle=False) as file:
        names = next((names for names in NAMES if all(name in file.files for name in names)), None)
        if names is None:
            raise LoadError(f"{path} needs arrays {', '.join(NAMES[0])}; it has {', '.join(file.files) or 'none'}.")
        x_train, y_train, x_test, y_test = (file[name] for name in names)
    train, test = (_to_split(x, y, str(path)) for x, y in ((x_train, y_train), (x_test, y_test)))
    return _checked(train, test, source)


def read_code(source: Source) -> Data:
    """Call package.module:function, which returns the training and the test set: pairs of examples and labels, or
    data sets of torch."""
    function = import_object(source.path, "data: code", "package.module:function")
    with restored_draws(torch.device("cpu")):
        seed_draws("data")  # so that all processes get the same
        try:
            found = function() if callable(function) else function
        except EffsparseError:
            raise
        except (Exception, SystemExit) as error:
            raise UsageError(f"data: {source.path} failed: {describe_error(error)}") from error
        if isinstance(found, Mapping) and {"train", "test"} <= found.keys():
            found = found["train"], found["test"]
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise UsageError(f"data: {source.path} must return two data sets: {CONTRACT}.")
        train, test = (_to_split(*_read_pairs(each, source.path), source.path) for each in found)
    return _checked(train, test, source)


def _checked(train: Split, test: Split, source: Source) -> Data:
    shapes = [tuple(split.examples.read(torch.arange(0)).shape[1:]) for split in (train, test)]
    if shapes[0] != shapes[1]:
        named = ["x".join(map(str, shape)) for shape in shapes]
        raise LoadError(f"{source.path}: training examples have shape {named[0]}, test examples {named[1]}.")
    return make_data(train, test, source)


def _read_pairs(value: Any, where: str) -> tuple[Any, Any]:
    """Return all examples and all labels of what the user's function returned."""
    if isinstance(value, tuple | list) and len(value) == 2 and all(hasattr(each, "shape") for each in value):
        return value[0], value[1]
    if not hasattr(value, "__len__") or not hasattr(value, "__getitem__"):
        raise UsageError(f"data: {where} must return {CONTRACT}.")
    try:
        pairs = [value[i] for i in range(len(value))]
        examples, labels = ([torch.as_tensor(pair[i]) for pair in pairs] for i in (0, 1))
        return torch.stack(examples), torch.stack(labels)
    except (Exception, SystemExit) as error:
        reason = describe_error(error)
        raise UsageError(f"data: {where} must return {CONTRACT}, with examples of one shape: {reason}") from error


def _to_split(examples: Any, labels: Any, where: str) -> Split:
    x, y = _to_tensor(examples, "examples", where), _to_tensor(labels, "labels", where)
    y = y.squeeze(-1) if y.ndim == 2 and y.shape[-1] == 1 else y
    if y.ndim != 1 or y.is_floating_point() or y.is_complex():
        raise LoadError(f"{where}: labels must be one class number for each example.")
    if x.ndim < 2 or x.is_complex():
        raise LoadError(f"{where}: examples must be arrays of numbers, at least one each.")
    if x.is_floating_point() and not bool(x.float().isfinite().all()):
        raise LoadError(f"{where}: some examples are not finite, or too large for 32 bits.")
    return Split(Stored(_channels_first(x)), y.long())


def _to_tensor(value: Any, what: str, where: str) -> torch.Tensor:
    try:
        return value.detach().to_dense().cpu() if isinstance(value, torch.Tensor) else to_tensor(np.asarray(value))
    except Exception as error:
        raise LoadError(f"{where}: the {what} are not numbers: {describe_error(error)}") from error


def _channels_first(x: torch.Tensor) -> torch.Tensor:
    if x.ndim == 3:
        return x.unsqueeze(1)
    if x.ndim == 4 and x.shape[-1] in CHANNELS and x.shape[1] not in CHANNELS:
        return x.permute(0, 3, 1, 2).contiguous()
    return x
