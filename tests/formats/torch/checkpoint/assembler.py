"""Write pickles opcode by opcode, for files that no regular program writes."""

from __future__ import annotations

import struct
from collections.abc import Iterable

HEAD, STOP = b"\x80\x04", b"."
LIST, DICT, TUPLE, SET, MARK = b"]", b"}", b")", b"\x8f", b"("
APPEND, APPENDS, SETITEM, SETITEMS, ADDITEMS = b"a", b"e", b"s", b"u", b"\x90"
POP, NONE, REDUCE, NEWOBJ, BUILD, NEWOBJ_EX, PERSID, MEMOIZE = b"0", b"N", b"R", b"\x81", b"b", b"\x92", b"Q", b"\x94"
STORAGE = "storage"


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return (b"\x8a" + bytes([len(data)]) if len(data) < 256 else b"\x8b" + struct.pack("<i", len(data))) + data


def raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def put(index: int) -> bytes:
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index) if index > 255 else b"h" + bytes([index])


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def many(*parts: bytes) -> bytes:
    """Return a tuple."""
    return MARK + b"".join(parts) + b"t"


def listed(parts: Iterable[bytes]) -> bytes:
    return LIST + MARK + b"".join(parts) + APPENDS


def mapped(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    return DICT + MARK + b"".join(key + value for key, value in pairs) + SETITEMS


def whole(body: bytes) -> bytes:
    return HEAD + body + STOP


def storage(key: str = "0", numel: int = 4, kind: str = "FloatStorage") -> bytes:
    return many(text(STORAGE), named("torch", kind), text(key), text("cpu"), number(numel)) + PERSID


def tensor(
    shape: Iterable[int] = (2, 2), stride: Iterable[int] = (2, 1), offset: int = 0, memory: bytes | None = None
) -> bytes:
    """Return a tensor over the four values that `with_pickle` stores."""
    sizes, steps = (many(*map(number, each)) for each in (shape, stride))
    args = many(memory or storage(), number(offset), sizes, steps, b"\x89", DICT)
    return named("torch._utils", "_rebuild_tensor_v2") + args + REDUCE


def state_dict(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    return whole(mapped((text(name), value) for name, value in pairs))
