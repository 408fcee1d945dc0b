"""The machine that a pickle is a program for, over plain data. Nothing is imported and nothing is called but the
constructors of a few built-in containers. What a pickle may cost is bounded by its own length: each operation costs
about the same, and one that would copy, hash or compare more than the pickle built is refused."""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from typing import Any

from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert, StorageRef

NAMES, LONGEST_NAME, LONGEST_REFERENCE = 10_000, 1_000, 8
KEY_NODES, SAME_HASH = 64, 256
"""A key may be a small tuple. Integers, and tuples of them, can be chosen to have equal hashes, which makes a
dictionary of n keys take n^2 steps."""
SMALL = 1 << 60
"""Integers below have hashes of their own."""
REAL: dict[str, type] = {
    "collections.OrderedDict": OrderedDict,
    "builtins.dict": dict,
    "builtins.list": list,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
}


class ExcessiveError(Exception):
    """The pickle would cost far more than a checkpoint does."""


class MalformedError(Exception):
    """The pickle does not follow the rules of its format."""


class Machine:
    """`names` are the classes and functions that the pickle asks for, `storages` the memory that it refers to,
    `sources` the files that classes were defined in, where the pickle says so."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.storages: dict[str, StorageRef] = {}
        self.sources: dict[str, str] = {}
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.kinds: dict[tuple[str, str], Any] = {}
        self.operations = 0
        self.copied = 0
        self.hashes: Counter[tuple[int, int]] = Counter()

    def top(self) -> list[Any]:
        """What was pushed since the last mark, taken from the stack."""
        start = self.marks.pop()
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def get(self, place: Any) -> None:
        self.stack.append(self.memo[int(place)])

    def put(self, place: Any) -> None:
        self.memo[int(place)] = self.stack[-1]

    def tuple_of(self, length: int) -> None:
        self.stack[-length:] = [tuple(self.stack[-length:])]

    def named(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str) or len(module) + len(name) > LONGEST_NAME:
            raise MalformedError("a class without a name")
        if (module, name) not in self.kinds:
            if len(self.kinds) >= NAMES:
                raise ExcessiveError
            self.kinds[module, name] = self._kind(module, name)
        self.stack.append(self.kinds[module, name])

    def _kind(self, module: str, name: str) -> Any:
        # Protocols before 3 name things as Python 2 did.
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        full = f"{module}.{name}"
        if full in REAL:
            return REAL[full]
        self.names.setdefault(full)
        return type("Inert", (Inert,), {"__slots__": (), "of": full})

    def call(self, *, called: bool = True) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        self.stack.append(self.made(function, args, called=called))

    def made(self, function: Any, args: Any, *, called: bool) -> Any:
        if not isinstance(args, tuple):
            raise MalformedError("arguments that are not a tuple")
        if isinstance(function, type) and function in REAL.values():
            return self._container(function, args)
        kind = type(function) if isinstance(function, Inert) else function
        if not isinstance(kind, type) or not issubclass(kind, Inert):
            raise MalformedError(f"a call of a {type(function).__name__}")
        return kind.record(args, called)

    def _container(self, kind: Any, args: tuple[Any, ...]) -> Any:
        """A copy of a built-in container: each element was made by an operation, and is copied about once."""
        if not args:
            return kind()
        (content,) = args
        if not isinstance(content, list | tuple | dict | set | frozenset):
            raise MalformedError(f"a {kind.__name__} of a {type(content).__name__}")
        self.copied += len(content)
        if self.copied > 2 * self.operations:
            raise ExcessiveError
        if kind is list:
            return list(content)
        if not issubclass(kind, dict):
            for key in content:
                self.check_key(content, key)
            return kind(content)
        filled = kind()
        for key, value in content.items() if isinstance(content, dict) else content:
            self.set_item(filled, key, value)
        return filled

    def set_item(self, container: Any, key: Any, value: Any) -> None:
        if not isinstance(container, dict | Inert):
            raise MalformedError(f"entries of a {type(container).__name__}")
        self.check_key(container, key)
        container[key] = value

    def append(self, container: Any, value: Any) -> None:
        if not isinstance(container, list | Inert):
            raise MalformedError(f"entries of a {type(container).__name__}")
        container.append(value)

    def add(self, container: Any, value: Any) -> None:
        if not isinstance(container, set | Inert):
            raise MalformedError(f"entries of a {type(container).__name__}")
        self.check_key(container, value)
        container.add(value)

    def check_key(self, container: Any, key: Any) -> None:
        """Refuses keys that are dear to hash or to compare."""
        if type(key) is str or (type(key) is int and -SMALL < key < SMALL):
            return
        pending, nodes = [key], 0
        while pending:
            each = pending.pop()
            nodes += 1
            if nodes > KEY_NODES:
                raise ExcessiveError
            pending += each if isinstance(each, tuple | frozenset) else ()
        place = id(container), hash(key)
        self.hashes[place] += 1
        if self.hashes[place] > SAME_HASH:
            raise ExcessiveError

    def build(self) -> None:
        """A container's own attributes, such as the versions of a state_dict, are left out."""
        state, value = self.stack.pop(), self.stack[-1]
        if isinstance(value, Inert):
            value.state = state
        elif not isinstance(value, list | dict | set | frozenset):
            raise MalformedError(f"the state of a {type(value).__name__}")

    def refer(self, reference: Any) -> None:
        match reference if isinstance(reference, tuple) and len(reference) <= LONGEST_REFERENCE else ():
            case ("storage", type() as kind, str() | int() as key, _, int(numel), *rest) if not any(rest):
                ref = StorageRef(getattr(kind, "of", "").rpartition(".")[2], str(key), numel)
                self.stack.append(self.storages.setdefault(ref.key, ref))
            case ("module", type() as kind, source, *_):
                # The old format gives the source of a class beside it.
                if isinstance(source, str) and issubclass(kind, Inert):
                    self.sources[kind.of] = source[-LONGEST_NAME:]
                self.stack.append(kind)
            case _:
                raise MalformedError("it refers to something that is not the memory of a tensor")
