"""What a pickle describes, as plain data: whatever class or function it asks for is a record of the asking and nothing
else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

HARMFUL = {
    "os", "posix", "nt", "sys", "subprocess", "shutil", "socket", "importlib", "runpy", "pty", "code", "codeop",
    "ctypes", "pip", "webbrowser", "pickle", "_pickle", "marshal", "timeit", "cProfile", "profile", "pdb", "bdb",
    "io.open",
}  # fmt: skip
"""What no checkpoint has a reason to name, mostly whole modules. It would be as inert as anything else: a file that
names it is refused because it was made to do harm."""
PLAIN_BUILTINS = {
    "set", "frozenset", "slice", "range", "complex", "bytearray", "bytes", "object", "list", "dict", "tuple", "int",
    "float", "str", "bool", "type", "getattr", "Ellipsis", "NotImplemented",
}  # fmt: skip


class Inert:
    """What a class or function of that name (`of`) was to make: its arguments, the state that it was to take, and the
    entries put into it. `called` tells a call from the making of an empty object. A subclass per name, never an
    instance, stands for the name itself."""

    __slots__ = ("args", "called", "entries", "state")
    args: tuple[Any, ...]
    called: bool
    entries: Any
    state: Any
    of: ClassVar[str] = ""

    @classmethod
    def record(cls, args: tuple[Any, ...], called: bool) -> Self:
        made = cls()
        made.args, made.called, made.state, made.entries = args, called, None, None
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries = self.entries if isinstance(self.entries, dict) else {}
        self.entries[key] = value

    def append(self, value: Any) -> None:
        self.entries = self.entries if isinstance(self.entries, list) else []
        self.entries.append(value)

    add = append


@dataclass(frozen=True, slots=True)
class StorageRef:
    """The memory of a tensor, by its place in the file: `type` is torch's name for it (FloatStorage)."""

    type: str
    key: str
    numel: int


def is_harmful(name: str) -> bool:
    module, _, rest = name.partition(".")
    if module == "builtins":
        return rest not in PLAIN_BUILTINS
    return module in HARMFUL or name in HARMFUL
