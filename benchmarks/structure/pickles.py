"""Edit opcodes of pickles: delete, insert or swap them, or change their arguments."""

from __future__ import annotations

import pickle
import pickletools
import random
import struct

GLOBALS = (
    "os system", "builtins eval", "builtins getattr", "builtins list", "builtins bytearray", "subprocess Popen",
    "collections OrderedDict", "collections Counter", "torch._utils _rebuild_tensor_v2", "torch FloatStorage",
    "torch LongStorage", "torch.nn.modules.linear Linear", "torch.nn.modules.container Sequential",
    "torch.nn.modules.conv Conv2d", "torch.nn.modules.rnn LSTM", "torch Size", "torch device", "torch float32",
    "torch._utils _rebuild_parameter", "torch._utils _rebuild_sparse_tensor", "numpy ndarray", "numpy dtype",
    "numpy._core.multiarray _reconstruct", "argparse Namespace", "__main__ Net", "no.such.module Thing", "x ", " ",
)  # fmt: skip
INSERTED = (
    pickle.MARK, pickle.POP, pickle.POP_MARK, pickle.DUP, pickle.NONE, pickle.NEWTRUE, pickle.EMPTY_DICT,
    pickle.EMPTY_LIST, pickle.EMPTY_TUPLE, pickle.EMPTY_SET, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3,
    pickle.REDUCE, pickle.BUILD, pickle.NEWOBJ, pickle.APPEND, pickle.APPENDS, pickle.SETITEM, pickle.SETITEMS,
    pickle.DICT, pickle.LIST, pickle.BINPERSID, pickle.MEMOIZE, pickle.STOP, pickle.STACK_GLOBAL, pickle.NEWOBJ_EX,
    pickle.ADDITEMS, pickle.FROZENSET, b"K\x07", b"J\xff\xff\xff\xff", b"h\x00", b"q\x00",
    b"\x8a\x09" + b"\xff" * 8 + b"\x7f",
    b"\x82\x01", b"\x80\x05", b"G" + struct.pack(">d", 1e308), b"C\x04abcd",
    b"X\x01\x00\x00\x00w", b"\x95" + b"\xff" * 8,
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 255, 65535, 2**31 - 1, -(2**31))


def opcodes(content: bytes) -> list[bytes]:
    """Return the opcodes of the first pickle in a file with their arguments."""
    starts = [position or 0 for _, _, position in pickletools.genops(content)]
    ends = [*starts[1:], starts[-1] + 1]
    return [content[start:end] for start, end in zip(starts, ends, strict=True)]


def edit_pickle(content: bytes, dice: random.Random) -> bytes:
    parts = opcodes(content)
    rest = content[sum(map(len, parts)) :]
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        i, j = dice.randrange(len(parts)), dice.randrange(len(parts))
        match dice.randrange(8):
            case 0:
                del parts[i]
            case 1:
                parts.insert(i, dice.choice(INSERTED))
            case 2:
                parts.insert(i, parts[j])
            case 3:
                parts[i], parts[j] = parts[j], parts[i]
            case 4:
                span = parts[i : i + dice.choice((2, 5, 20))]
                parts[j:j] = span * dice.choice((1, 1, 3, 50))
            case _:
                parts[i] = _argument(parts, i, dice)
        if not parts:
            break
    return b"".join(parts) + rest


def edit_legacy(content: bytes, dice: random.Random) -> bytes:
    """Edit a file in torch's format before zip archives: five pickles followed by raw storages."""
    pieces, at = [], 0
    for _ in range(5):
        piece = b"".join(opcodes(content[at:]))
        pieces.append(piece)
        at += len(piece)
    i = dice.choice((0, 1, 2, 3, 3, 3, 3, 4, 4))
    pieces[i] = edit_pickle(pieces[i], dice)
    return b"".join(pieces) + content[at:]


def _argument(parts: list[bytes], i: int, dice: random.Random) -> bytes:
    """Change the argument of an opcode, or replace it by a similar opcode."""
    code, others = parts[i][:1], [part for part in parts if part[:1] == parts[i][:1]]
    number = dice.choice(NUMBERS)
    match code:
        case pickle.GLOBAL:
            module, name = dice.choice(GLOBALS).split(" ")
            return b"c" + module.encode() + b"\n" + name.encode() + b"\n"
        case pickle.BINUNICODE | pickle.SHORT_BINUNICODE:
            text = dice.choice(
                (dice.choice(others)[5:], b"", b"../x", b"0.weight", b"\xff\xfe", b"a" * 3000, b"cuda:0", b"meta")
            )
            return b"X" + struct.pack("<I", len(text) if dice.random() < 0.9 else 2**31) + text
        case pickle.BININT | pickle.BININT1 | pickle.BININT2:
            return b"J" + struct.pack("<i", number)
        case pickle.LONG1:
            return pickle.LONG1 + bytes([8]) + struct.pack("<q", dice.choice((*NUMBERS, 2**62)))
        case pickle.BINGET | pickle.LONG_BINGET:
            return b"j" + struct.pack("<I", dice.choice((0, 1, 5, 20, 2**31)))
        case pickle.BINPUT | pickle.LONG_BINPUT:
            return b"r" + struct.pack("<I", dice.choice((0, 1, 5, 20, 2**20)))
        case pickle.PROTO:
            return b"\x80" + bytes([dice.choice((0, 1, 3, 4, 5, 6, 255))])
        case _:
            return dice.choice((*INSERTED, dice.choice(parts)))
