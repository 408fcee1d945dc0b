"""Objects of a pickle as plain data: an object of any class is a record of how it was to be made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

HARMFUL = {
    "os", "posix", "nt", "sys", "subprocess", "shutil", "socket", "importlib", "runpy", "pty", "code", "codeop",
    "ctypes", "pip", "webbrowser", "pickle", "_pickle", "marshal", "timeit", "cProfile", "profile", "pdb", "bdb",
    "io.open",
}  # fmt: skip
"""Modules and functions that no checkpoint has a reason to name. They would not be called, but a file that names one
was made to do harm and is refused."""
HARMLESS_BUILTINS = {
    "set", "frozenset", "slice", "range", "complex", "bytearray", "bytes", "object", "list", "dict", "tuple", "int",
    "float", "str", "bool", "type", "getattr", "Ellipsis", "NotImplemented",
}  # fmt: skip


class Inert:
    """An object that the class or function `of` was to make: arguments, state and items.

    `called` is False if only an empty object was to be created. The class or function itself is represented by a
    subclass with its name.
    """

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
