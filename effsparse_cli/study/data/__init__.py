"""Data sets for experiments: files are read as data, and nothing in them is run.

To add a kind, write `read(source: Source) -> Data` in a file of this folder and add a row to READERS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from effsparse_cli.arguments import choose
from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.study.data.dataset import Data

READERS = {
    "mnist": "mnist.read",
    "cifar10": "cifar.read_cifar10",
    "cifar100": "cifar.read_cifar100",
    "images": "images.read",
    "npz": "arrays.read_npz",
    "code": "arrays.read_code",
}
"""Functions by kind, imported when they are first called."""
NUMBERS = ("train", "test", "size", "resize", "channels")
SETTINGS = ("kind", "path", *NUMBERS)


def read_data(spec: Mapping[str, Any]) -> Data:
    """Read the data set that a task describes.

    `kind` is one of READERS, `path` a folder, a file or package.module:function. `train` and `test` limit the numbers
    of examples, the same ones for every task. Images of a folder are scaled to `resize` pixels and cut to `size`.
    """
    from effsparse_cli.study.data.dataset import Source

    unknown = [name for name in spec if name not in SETTINGS]
    if unknown:
        raise UsageError(f"data: unknown setting {unknown[0]!r}. The settings are {', '.join(SETTINGS)}.")
    kind = choose(str(spec.get("kind", "")), READERS, "data: kind")
    path = spec.get("path")
    if not isinstance(path, str) or not path:
        raise UsageError(f"data: {kind} needs a path.")
    for name in NUMBERS:
        value = spec.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise UsageError(f"data: {name} is {value!r}: use a whole number, 1 or more.")
    module, _, name = READERS[kind].partition(".")
    read: Callable[[Source], Data] = getattr(import_module(f"{__name__}.{module}"), name)
    numbers = {name: spec.get(name) for name in NUMBERS}
    return read(Source(path=path, **numbers))
