"""A pickle becomes plain data: whatever class or function it asks for is a record of the asking and nothing else, so
that reading it runs no code but this. What it may cost is known before it is built."""

from __future__ import annotations

import io
import pickle
import pickletools
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from effsparse_cli.errors import LoadError, RefusedError

OPERATIONS = 4_000_000
"""Of one pickle. The dearest takes some 220 bytes, so that no pickle needs more than 1 GB to be built; a checkpoint
has about 30 for each of its tensors."""

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
REAL = {
    "collections.OrderedDict": OrderedDict,
    "builtins.dict": dict,
    "builtins.list": list,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
}


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

    def __new__(cls, *args: Any, **kwargs: Any) -> Inert:
        made = super().__new__(cls)
        made.args, made.called, made.state, made.entries = (*args, *kwargs.values()), False, None, None
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.called = True

    def __setstate__(self, state: Any) -> None:
        self.state = state

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


@dataclass(frozen=True)
class Unpickled:
    """`asked` are the names of classes and functions, in the order of asking; `storages` the memory that it refers
    to, by key."""

    content: Any
    asked: tuple[str, ...]
    storages: Mapping[str, StorageRef]


def unpickle(data: bytes, where: str) -> Unpickled:
    """`where` is the file, for messages."""
    reader = _Reader(io.BytesIO(data))
    content, failure = None, None
    try:
        for _ in _operations(io.BytesIO(data), where):
            pass
        content = reader.load()
    except LoadError:
        raise
    except Exception as error:
        failure = error
    harmful = [name for name in reader.names if is_harmful(name)]
    if harmful:
        raise RefusedError(
            f"{where} asks for {', '.join(harmful[:8])}, which no checkpoint has a reason to: it is made to run code "
            "on the machine that loads it. Nothing of it was run. Do not load it elsewhere either."
        )
    if failure is not None:
        raise LoadError(f"{where} is damaged: its pickle cannot be read ({_first_line(failure)})") from failure
    return Unpickled(content, tuple(reader.names), reader.storages)


def one_pickle(file: BinaryIO, where: str) -> bytes:
    """The bytes of the pickle at the file's position, which is behind it afterwards."""
    start = file.tell()
    try:
        for _ in _operations(file, where):
            pass
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"{where} is damaged or cut: a pickle in it does not end ({_first_line(error)})") from error
    end = file.tell()
    file.seek(start)
    return file.read(end - start)


def is_harmful(name: str) -> bool:
    module, _, rest = name.partition(".")
    if module == "builtins":
        return rest not in PLAIN_BUILTINS
    return module in HARMFUL or name in HARMFUL


def _operations(file: BinaryIO, where: str) -> Iterator[None]:
    """Steps through a pickle without building anything. A memo is an array as long as its highest position, so that
    one of a few bytes could ask for gigabytes: positions are at most as many as operations."""
    memo = 0
    for count, (operation, argument, _) in enumerate(pickletools.genops(file)):
        if operation.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo = max(memo, int(argument or 0))
        if count > OPERATIONS or memo > 2 * count + 256:
            raise LoadError(f"{where} is refused: its pickle would take far more memory than a checkpoint's does")
        yield


class _Reader(pickle.Unpickler):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="latin1")
        self.kinds: dict[str, type] = dict(REAL)
        self.names: dict[str, None] = {}
        self.storages: dict[str, StorageRef] = {}

    def find_class(self, module: str, name: str) -> Any:
        # Protocols before 3 name things as Python 2 did.
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        full = f"{module}.{name}"
        if full not in REAL:
            self.names.setdefault(full)
        if full not in self.kinds:
            self.kinds[full] = type("Inert", (Inert,), {"__slots__": (), "of": full})
        return self.kinds[full]

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case ("storage", type() as kind, key, _, int(numel), *rest) if not any(rest):
                ref = StorageRef(getattr(kind, "of", "").rpartition(".")[2], str(key), numel)
                return self.storages.setdefault(ref.key, ref)
            case ("module", kind, *_):
                # Files from before torch 1.0 give the source of a class beside it.
                return kind
        raise pickle.UnpicklingError("it refers to something that is no tensor's memory")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
