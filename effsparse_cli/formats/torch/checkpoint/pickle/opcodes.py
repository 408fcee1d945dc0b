"""Steps through the opcodes of a pickle. One that is in no table here is refused."""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, BinaryIO

from effsparse_cli.formats.torch.checkpoint.pickle.machine import ExcessiveError, Machine, MalformedError

OPERATIONS = 4_000_000
"""Of one pickle. An operation takes at most about 220 bytes, so no pickle needs more than 1 GB; a checkpoint has about
30 operations for each of its tensors."""
INTEGER_BITS = 4_096
Step = Callable[[Machine, Any], object]


def _entries(machine: Machine, put: Callable[..., None], width: int = 1) -> None:
    """The values above the mark into the container below it."""
    values, container = machine.top(), machine.stack[-1]
    if len(values) % width:
        raise MalformedError("a key without a value")
    for at in range(0, len(values), width):
        put(container, *values[at : at + width])


def _entry(machine: Machine, put: Callable[..., None], width: int = 1) -> None:
    values = machine.stack[-width:]
    del machine.stack[-width:]
    put(machine.stack[-1], *values)


def _dict(machine: Machine) -> None:
    values = machine.top()
    machine.stack.append({})
    for key, value in zip(values[::2], values[1::2], strict=True):
        machine.set_item(machine.stack[-1], key, value)


def _frozenset(machine: Machine) -> None:
    values = machine.top()
    for value in values:
        machine.check_key(values, value)
    machine.stack.append(frozenset(values))


def _instance(machine: Machine, kind: str | None) -> None:
    """INST has its class as an argument, OBJ above the mark."""
    args = machine.top()
    if kind is None:
        function = args.pop(0)
    else:
        machine.named(*kind.split(" ", 1))
        function = machine.stack.pop()
    machine.stack.append(machine.made(function, tuple(args), called=True))


def _with_keywords(machine: Machine) -> None:
    keywords, args, kind = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.copied += len(args) + len(keywords)
    if machine.copied > 2 * machine.operations:
        raise ExcessiveError
    machine.stack.append(machine.made(kind, (*args, *keywords.values()), called=False))


def _stack_global(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.named(module, name)


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
    "POP": lambda m, _: m.stack.pop() if len(m.stack) > (m.marks[-1] if m.marks else 0) else m.top(),
    "POP_MARK": lambda m, _: m.top(),
    "DUP": lambda m, _: m.stack.append(m.stack[-1]),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.get),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine.put),
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_SET": lambda m, _: m.stack.append(set()),
    "LIST": lambda m, _: m.stack.append(m.top()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.top())),
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    "DICT": lambda m, _: _dict(m),
    "FROZENSET": lambda m, _: _frozenset(m),
    "APPEND": lambda m, _: _entry(m, m.append),
    "APPENDS": lambda m, _: _entries(m, m.append),
    "SETITEM": lambda m, _: _entry(m, m.set_item, 2),
    "SETITEMS": lambda m, _: _entries(m, m.set_item, 2),
    "ADDITEMS": lambda m, _: _entries(m, m.add),
    "GLOBAL": lambda m, name: m.named(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: _stack_global(m),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(called=False),
    "NEWOBJ_EX": lambda m, _: _with_keywords(m),
    "INST": _instance,
    "OBJ": _instance,
    "BUILD": lambda m, _: m.build(),
    "PERSID": Machine.refer,
    "BINPERSID": lambda m, _: m.refer(m.stack.pop()),
}


def run(machine: Machine, file: BinaryIO) -> Any:
    """The object of the pickle at the file's position, which is behind the pickle afterwards."""
    for count, (operation, argument, _) in enumerate(pickletools.genops(file)):
        if count > OPERATIONS:
            raise ExcessiveError
        machine.operations = count
        name = operation.name
        if name in PUSHED:
            if isinstance(argument, int) and argument.bit_length() > INTEGER_BITS:
                raise ExcessiveError
            machine.stack.append(argument)
        elif name in STEPS:
            STEPS[name](machine, argument)
        elif name not in IGNORED:
            raise MalformedError(f"{name} is not used by torch.save")
    return machine.stack[-1]
