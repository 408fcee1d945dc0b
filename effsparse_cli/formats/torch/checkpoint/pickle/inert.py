"""Objects of a pickle as plain data: an object of any class is a record of how it was to be made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from effsparse_cli.errors import LoadError

HARMFUL = {
    "os", "posix", "nt", "sys", "subprocess", "shutil", "socket", "importlib", "runpy", "pty", "code", "codeop",
    "ctypes", "pip", "webbrowser", "pickle", "_pickle", "marshal", "timeit", "cProfile", "profile", "pdb", "bdb",
    "io.open",
}  # fmt: skip
"""They would not be called, but a file that names one of these was made to do harm and is refused."""
HARMLESS_BUILTINS = {
    "set", "frozenset", "slice", "range", "complex", "bytearray", "bytes", "object", "list", "dict", "tuple", "int",
    "float", "str", "bool", "type", "getattr", "Ellipsis", "NotImplemented",
}  # fmt: skip
DTYPES = {
    "FloatStorage": torch.float32, "DoubleStorage": torch.float64, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8, "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64, "ComplexDoubleStorage": torch.complex128, "UntypedStorage": torch.uint8,
    "QInt8Storage": torch.qint8, "QUInt8Storage": torch.quint8, "QInt32Storage": torch.qint32,
}  # fmt: skip


class Inert:
    """An object that the class or function `of` was to make, or only to create if it was not `called`. The class or
    function itself is represented by a subclass with its name."""

    __slots__ = ("args", "called", "items", "state")
    args: tuple[Any, ...]
    called: bool
    items: Any
    state: Any
    of: ClassVar[str] = ""

    @classmethod
    def record(cls, args: tuple[Any, ...], called: bool) -> Self:
        made = cls()
        made.args, made.called, made.state, made.items = args, called, None, None
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items = self.items if isinstance(self.items, dict) else {}
        self.items[key] = value

    def append(self, value: Any) -> None:
        self.items = self.items if isinstance(self.items, list) else []
        self.items.append(value)

    add = append


@dataclass(frozen=True, slots=True)
class StorageRef:
    """A storage by its key in the file; `type` is the name of its class, for example FloatStorage."""

    type: str
    key: str
    numel: int


def is_harmful(name: str) -> bool:
    module, _, rest = name.partition(".")
    if module == "builtins":
        return rest not in HARMLESS_BUILTINS
    return module in HARMFUL or name in HARMFUL


def dtype_of(ref: StorageRef, path: Path) -> torch.dtype:
    if ref.type not in DTYPES:
        raise LoadError(f"{path} contains a tensor of type {ref.type!r}, which is not supported.")
    return DTYPES[ref.type]


def itemsize(ref: StorageRef, path: Path) -> int:
    if not 0 <= ref.numel < 1 << 62:
        raise LoadError(f"{path} is damaged: it contains a tensor of {ref.numel} elements.")
    return dtype_of(ref, path).itemsize
