"""The stack machine that executes a pickle, restricted to plain data: nothing is imported, and only constructors of a
few built-in containers are called. The cost is bounded by the length of the pickle: each operation costs about the
same, and one that would copy, hash or compare more than the pickle contains is refused."""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from typing import Any

from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert, StorageRef

MAX_NAMES, MAX_NAME_LENGTH, MAX_REFERENCE = 10_000, 1_000, 8
MAX_KEY_NODES, MAX_SAME_HASH = 64, 256
"""A key may be a small tuple. With n keys of equal hashes, filling a dictionary would take n^2 steps."""
SMALL = 1 << 60
"""Smaller integers have different hashes."""
CONTAINERS: dict[str, type] = {
    "collections.OrderedDict": OrderedDict,
    "builtins.dict": dict,
    "builtins.list": list,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
}


class ExcessiveError(Exception):
    """The pickle would cost far more than that of a checkpoint."""


class MalformedError(Exception):
    """The pickle is not valid."""


class Machine:
    """The state of the machine. `names` are the classes and functions that the pickle refers to, `storages` the
    storages by key, `sources` the source files of classes where the pickle states them."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.storages: dict[str, StorageRef] = {}
        self.sources: dict[str, str] = {}
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.classes: dict[tuple[str, str], Any] = {}
        self.operations = 0
        self.copied = 0
        self.hashes: Counter[tuple[int, int]] = Counter()

    def pop_mark(self) -> list[Any]:
        """Remove and return the values above the last mark."""
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def get(self, index: Any) -> None:
        self.stack.append(self.memo[int(index)])

    def put(self, index: Any) -> None:
        self.memo[int(index)] = self.stack[-1]

    def make_tuple(self, length: int) -> None:
        self.stack[-length:] = [tuple(self.stack[-length:])]

    def push_global(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str) or len(module) + len(name) > MAX_NAME_LENGTH:
            raise MalformedError("a class has no name")
        if (module, name) not in self.classes:
            if len(self.classes) >= MAX_NAMES:
                raise ExcessiveError
            self.classes[module, name] = self._make_class(module, name)
        self.stack.append(self.classes[module, name])

    def _make_class(self, module: str, name: str) -> Any:
        # Protocols before 3 use the names of Python 2.
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        full = f"{module}.{name}"
        if full in CONTAINERS:
            return CONTAINERS[full]
        self.names.setdefault(full)
        return type("Inert", (Inert,), {"__slots__": (), "of": full})

    def call(self, *, called: bool = True) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        self.stack.append(self.construct(function, args, called=called))

    def construct(self, function: Any, args: Any, *, called: bool) -> Any:
        if not isinstance(args, tuple):
            raise MalformedError("arguments are not a tuple")
        if isinstance(function, type) and function in CONTAINERS.values():
            return self._copy_container(function, args)
        kind = type(function) if isinstance(function, Inert) else function
        if not isinstance(kind, type) or not issubclass(kind, Inert):
            raise MalformedError(f"a {type(function).__name__} is called")
        return kind.record(args, called)

    def _copy_container(self, kind: Any, args: tuple[Any, ...]) -> Any:
        """Copy a built-in container. Each element was made by one operation, and may be copied about once."""
        if not args:
            return kind()
        (content,) = args
        if not isinstance(content, list | tuple | dict | set | frozenset):
            raise MalformedError(f"a {kind.__name__} is built from a {type(content).__name__}")
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
            raise MalformedError(f"items are added to a {type(container).__name__}")
        self.check_key(container, key)
        container[key] = value

    def append(self, container: Any, value: Any) -> None:
        if not isinstance(container, list | Inert):
            raise MalformedError(f"items are added to a {type(container).__name__}")
        container.append(value)

    def add(self, container: Any, value: Any) -> None:
        if not isinstance(container, set | Inert):
            raise MalformedError(f"items are added to a {type(container).__name__}")
        self.check_key(container, value)
        container.add(value)

    def check_key(self, container: Any, key: Any) -> None:
        """Refuse keys that are expensive to hash or to compare."""
        if type(key) is str or (type(key) is int and -SMALL < key < SMALL):
            return
        pending, nodes = [key], 0
        while pending:
            each = pending.pop()
            nodes += 1
            if nodes > MAX_KEY_NODES:
                raise ExcessiveError
            pending += each if isinstance(each, tuple | frozenset) else ()
        bucket = id(container), hash(key)
        self.hashes[bucket] += 1
        if self.hashes[bucket] > MAX_SAME_HASH:
            raise ExcessiveError

    def build(self) -> None:
        """Set the state of an object. Attributes of containers, such as the versions in a state_dict, are ignored."""
        state, value = self.stack.pop(), self.stack[-1]
        if isinstance(value, Inert):
            value.state = state
        elif not isinstance(value, list | dict | set | frozenset):
            raise MalformedError(f"a {type(value).__name__} is given a state")

    def push_reference(self, reference: Any) -> None:
        match reference if isinstance(reference, tuple) and len(reference) <= MAX_REFERENCE else ():
            case ("storage", type() as kind, str() | int() as key, _, int(numel), *rest) if not any(rest):
                ref = StorageRef(getattr(kind, "of", "").rpartition(".")[2], str(key), numel)
                self.stack.append(self.storages.setdefault(ref.key, ref))
            case ("module", type() as kind, source, *_):
                # The legacy format stores the source of a class with it.
                if isinstance(source, str) and issubclass(kind, Inert):
                    self.sources[kind.of] = source[-MAX_NAME_LENGTH:]
                self.stack.append(kind)
            case _:
                raise MalformedError("it refers to something that is not a storage")
