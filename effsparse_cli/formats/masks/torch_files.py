"""Read torch files of masks as data: {name: mask}, possibly in other dictionaries, and state_dicts of sparsifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled
from effsparse_cli.formats.torch.checkpoint.weights import items_of
from effsparse_cli.formats.torch.tensors import numbers
from effsparse_cli.graph.primitives import Shape

MAX_DEPTH = 4


def read_torch_masks(path: Path) -> dict[str, tuple[Shape, Callable[[], NDArray[Any]]]]:
    """Return the shape and a reader of each mask by name."""
    try:
        opened = open_pickled(path)
        found = {name: opened.tensors.read(described) for name, described in _find_masks(opened.content, (), MAX_DEPTH)}
    except LoadError as error:
        raise type(error)(f"--masks: {error}") from error
    return {name: (tuple(tensor.shape), partial(numbers, tensor)) for name, tensor in found.items()}


def _find_masks(content: Any, names: tuple[str, ...], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield masks by name. Names of outer dictionaries are dropped, except that of {"fc.weight": {"mask": ...}}."""
    for key, value in items_of(content):
        if is_tensor(value):
            inside = names[-1:] if str(key) == "mask" else ()
            yield ".".join((*inside, str(key))), value
        elif depth:
            yield from _find_masks(value, (*names, str(key)), depth - 1)
