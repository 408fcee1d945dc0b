"""A torch file of masks, as data: {name: mask}, also inside of other dictionaries, and a sparsifier's state_dict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled
from effsparse_cli.formats.torch.checkpoint.weights import entries
from effsparse_cli.formats.torch.values import numbers
from effsparse_cli.graph.primitives import Shape

DEEPEST = 4


def read_torch_masks(path: Path) -> dict[str, tuple[Shape, Callable[[], NDArray[Any]]]]:
    try:
        opened = open_pickled(path)
        found = {name: opened.tensors.make(described) for name, described in _masks(opened.content, (), DEEPEST)}
    except LoadError as error:
        raise type(error)(f"--masks: {error}") from error
    return {name: (tuple(tensor.shape), partial(numbers, tensor)) for name, tensor in found.items()}


def _masks(content: Any, names: tuple[str, ...], depth: int) -> Iterator[tuple[str, Any]]:
    """By name; the dictionaries around them are no part of it, but for a sparsifier's {"fc.weight": {"mask": ...}}."""
    for key, value in entries(content):
        if is_tensor(value):
            inside = names[-1:] if str(key) == "mask" else ()
            yield ".".join((*inside, str(key))), value
        elif depth:
            yield from _masks(value, (*names, str(key)), depth - 1)
