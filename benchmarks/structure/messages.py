"""Edit fields of ONNX models: clear, duplicate or reorder them, or replace their values, also by other messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]

INTS = (0, 1, -1, 2, 3, 7, 8, 16, 99, 255, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63))
STRINGS = (
    "", "x", "y", "../up.bin", "/etc/hostname", "Loop", "If", "Scan", "MatMul", "Conv", "Gemm", "Reshape", "Concat",
    "ConstantOfShape", "NoSuchOp", "ai.onnx.ml", "com.microsoft", "a\nb", "AveragePool",
    "\x1b[31m", "::error::x", "NOTSET", "SAME_UPPER", "axis",
    "perm", "kernel_shape", "location", "offset", "length", "-1", "99999999999",
)  # fmt: skip
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: 32,
    FieldDescriptor.CPPTYPE_INT64: 64,
    FieldDescriptor.CPPTYPE_UINT32: 32,
    FieldDescriptor.CPPTYPE_UINT64: 64,
    FieldDescriptor.CPPTYPE_ENUM: 32,
}
Field = tuple[Message, FieldDescriptor]


def edit_onnx(content: bytes, dice: random.Random) -> bytes:
    from onnx import ModelProto

    model = ModelProto.FromString(content)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        _edit(model, dice)
    edited: bytes = model.SerializeToString()
    return edited


def _edit(model: Message, dice: random.Random) -> None:
    messages = list(_messages(model))
    by_kind: dict[str, list[Message]] = {}
    for message in messages:
        by_kind.setdefault(message.DESCRIPTOR.name, []).append(message)
    # Draw the kind of message first: otherwise nearly every edit would hit a node or a dimension.
    message = dice.choice(by_kind[dice.choice(sorted(by_kind))])
    present = [field for field, _ in message.ListFields()]
    every = list(message.DESCRIPTOR.fields)
    field = dice.choice(present if present and dice.random() < 0.8 else every)
    if field.is_repeated:
        _edit_repeated(message, field, by_kind, dice)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if dice.random() < 0.3:
            message.ClearField(field.name)
        else:
            others = by_kind.get(field.message_type.name, [])
            copied = dice.choice(others) if others else None
            if copied is not None and not _holds(copied, message):
                getattr(message, field.name).CopyFrom(copied)
    elif dice.random() < 0.2:
        message.ClearField(field.name)
    else:
        _set(message, field.name, _value(field, model, dice))


def _edit_repeated(
    message: Message, field: FieldDescriptor, by_kind: dict[str, list[Message]], dice: random.Random
) -> None:
    items = getattr(message, field.name)
    values: list[Any] = list(items)
    scalar = field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE
    i = dice.randrange(len(values)) if values else 0
    match dice.randrange(6):
        case 0 if values:
            del values[i]
        case 1 if values:
            values.insert(dice.randrange(len(values)), values[i])
        case 2:
            dice.shuffle(values)
        case 3 if scalar and values:
            values[i] = _value(field, message, dice)
        case 4 if scalar:
            values.append(_value(field, message, dice))
        case _ if not scalar:
            others = [m for m in by_kind.get(field.message_type.name, []) if not _holds(m, message)]
            values = [*values, dice.choice(others)] if others else values
    if scalar:
        message.ClearField(field.name)
        for value in values:
            _append(message, field.name, value)
    else:
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        message.ClearField(field.name)
        getattr(message, field.name).extend(copies)


def _value(field: FieldDescriptor, model: Message, dice: random.Random) -> Any:
    if field.cpp_type in INTEGERS:
        bits = INTEGERS[field.cpp_type]
        low, high = (0, 2**bits - 1) if field.cpp_type in (3, 4) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return min(max(dice.choice((*INTS, dice.randrange(24))), low), high)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return dice.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return dice.choice((b"", b"\0" * 7, b"\xff" * 16, b"\0" * 24 * 4, b"axis"))
    names = [
        s
        for m in _messages(model)
        for f, s in m.ListFields()
        if f.type == FieldDescriptor.TYPE_STRING and not f.is_repeated
    ]
    return dice.choice(STRINGS) if dice.random() < 0.4 or not names else dice.choice(names)


def _set(message: Message, name: str, value: Any) -> None:
    try:
        setattr(message, name, value)
    except (ValueError, TypeError):
        message.ClearField(name)


def _append(message: Message, name: str, value: Any) -> None:
    try:
        getattr(message, name).append(value)
    except (ValueError, TypeError):
        return


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for inner in value if field.is_repeated else (value,):
                yield from _messages(inner)


def _holds(outer: Message, inner: Message) -> bool:
    """Is `inner` part of `outer`? Copying a message into itself never ends."""
    return any(message is inner for message in _messages(outer))
