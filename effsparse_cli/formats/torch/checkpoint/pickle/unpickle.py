"""Read a pickle as plain data, opcode by opcode: one that is not in a table here is refused."""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from effsparse_cli.errors import LoadError, RefusedError, first_line
from effsparse_cli.formats.torch.checkpoint.pickle.inert import StorageRef, is_harmful
from effsparse_cli.formats.torch.checkpoint.pickle.machine import ExcessiveError, Machine, MalformedError

MAX_OPERATIONS = 4_000_000
"""Each takes at most about 220 bytes, so that no pickle needs more than 1 GB; a tensor has about 30."""
MAX_INTEGER_BITS = 4_096
Step = Callable[[Machine, Any], object]


def _add_items(machine: Machine, put: Callable[..., None], width: int = 1) -> None:
    """Add the values above the mark to the container below it."""
    values, container = machine.pop_mark(), machine.stack[-1]
    if len(values) % width:
        raise MalformedError("a key has no value")
    for at in range(0, len(values), width):
        put(container, *values[at : at + width])


def _add_item(machine: Machine, put: Callable[..., None], width: int = 1) -> None:
    values = machine.stack[-width:]
    del machine.stack[-width:]
    put(machine.stack[-1], *values)


def _make_dict(machine: Machine) -> None:
    values = machine.pop_mark()
    machine.stack.append({})
    for key, value in zip(values[::2], values[1::2], strict=True):
        machine.set_item(machine.stack[-1], key, value)


def _make_frozenset(machine: Machine) -> None:
    values = machine.pop_mark()
    for value in values:
        machine.check_key(values, value)
    machine.stack.append(frozenset(values))


def _make_instance(machine: Machine, class_name: str | None) -> None:
    """Make an instance of the class in the argument (INST) or above the mark (OBJ)."""
    args = machine.pop_mark()
    if class_name is None:
        function = args.pop(0)
    else:
        machine.push_global(*class_name.split(" ", 1))
        function = machine.stack.pop()
    machine.stack.append(machine.construct(function, tuple(args), called=True))


def _make_with_keywords(machine: Machine) -> None:
    keywords, args, kind = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.copied += len(args) + len(keywords)
    if machine.copied > 2 * machine.operations:
        raise ExcessiveError
    machine.stack.append(machine.construct(kind, (*args, *keywords.values()), called=False))


def _push_stack_global(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.push_global(module, name)


PUSHED = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE",
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
IGNORED = {"PROTO", "FRAME", "STOP"}
STEPS: dict[str, Step] = {
    "NONE": lambda m, _: m.stack.append(None),
    "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "POP": lambda m, _: m.stack.pop() if len(m.stack) > (m.marks[-1] if m.marks else 0) else m.pop_mark(),
    "POP_MARK": lambda m, _: m.pop_mark(),
    "DUP": lambda m, _: m.stack.append(m.stack[-1]),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.get),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine.put),
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_SET": lambda m, _: m.stack.append(set()),
    "LIST": lambda m, _: m.stack.append(m.pop_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_mark())),
    "TUPLE1": lambda m, _: m.make_tuple(1),
    "TUPLE2": lambda m, _: m.make_tuple(2),
    "TUPLE3": lambda m, _: m.make_tuple(3),
    "DICT": lambda m, _: _make_dict(m),
    "FROZENSET": lambda m, _: _make_frozenset(m),
    "APPEND": lambda m, _: _add_item(m, m.append),
    "APPENDS": lambda m, _: _add_items(m, m.append),
    "SETITEM": lambda m, _: _add_item(m, m.set_item, 2),
    "SETITEMS": lambda m, _: _add_items(m, m.set_item, 2),
    "ADDITEMS": lambda m, _: _add_items(m, m.add),
    "GLOBAL": lambda m, name: m.push_global(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: _push_stack_global(m),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(called=False),
    "NEWOBJ_EX": lambda m, _: _make_with_keywords(m),
    "INST": _make_instance,
    "OBJ": _make_instance,
    "BUILD": lambda m, _: m.build(),
    "PERSID": Machine.push_reference,
    "BINPERSID": lambda m, _: m.push_reference(m.stack.pop()),
}


def run(machine: Machine, file: BinaryIO) -> Any:
    """Execute the pickle at the position of the file and return its object."""
    for count, (operation, argument, _) in enumerate(pickletools.genops(file)):
        if count > MAX_OPERATIONS:
            raise ExcessiveError
        machine.operations = count
        name = operation.name
        if name in PUSHED:
            if isinstance(argument, int) and argument.bit_length() > MAX_INTEGER_BITS:
                raise ExcessiveError
            machine.stack.append(argument)
        elif name in STEPS:
            STEPS[name](machine, argument)
        elif name not in IGNORED:
            raise MalformedError(f"torch.save does not use {name}")
    return machine.stack[-1]


@dataclass(frozen=True)
class Unpickled:
    """The content of a pickle. `global_names` are the classes and functions that it refers to, in order; `storages` its
    storages by key; `sources` the source files of some classes."""

    content: Any
    global_names: tuple[str, ...]
    storages: Mapping[str, StorageRef]
    sources: Mapping[str, str]


def unpickle(file: BinaryIO, where: str) -> Unpickled:
    """Read the pickle at the current position of the file, and move past it; `where` is for messages."""
    machine = Machine()
    content, failure = None, None
    try:
        content = run(machine, file)
    except Exception as error:
        failure = error
    harmful = [name for name in machine.names if is_harmful(name)]
    if harmful:
        raise RefusedError(
            f"{where} refers to {', '.join(harmful[:8])}, which no checkpoint needs: it is made to run code on the "
            "machine that loads it. None of its code was run. Do not load it elsewhere either."
        )
    if isinstance(failure, ExcessiveError):
        raise LoadError(f"{where} is refused: its pickle would need far more memory or time than that of a checkpoint.")
    if failure is not None:
        raise LoadError(
            f"{where} is damaged or truncated: its pickle cannot be read ({first_line(failure, 200)}). Download it "
            "again."
        ) from failure
    return Unpickled(content, tuple(machine.names), machine.storages, machine.sources)
