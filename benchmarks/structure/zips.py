"""Edit zip archives: rename, duplicate, drop, compress or edit members, and change fields of the directory so that two
readers may disagree."""

from __future__ import annotations

import io
import random
import struct
import warnings
import zipfile
from collections.abc import Callable

NUMBERS = (0, 1, 2, 8, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, 100, 4096)
NAMES = (
    "../up",
    "/abs",
    "a/../b",
    "",
    "x" * 300,
    "archive/data.pkl",
    "data.pkl",
    "a\\b",
    "a\x00b",
    "archive/data/0",
    "version",
)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
Members = dict[str, bytes]
ENTRY = {
    4: "H",
    6: "H",
    8: "H",
    10: "H",
    12: "H",
    14: "H",
    16: "I",
    20: "I",
    24: "I",
    28: "H",
    30: "H",
    32: "H",
    42: "I",
}
"""Fields of an entry in the directory: offset and format."""
LOCAL = {4: "H", 6: "H", 8: "H", 10: "H", 12: "H", 14: "I", 18: "I", 22: "I", 26: "H", 28: "H"}
END = {4: "H", 6: "H", 8: "H", 10: "H", 12: "I", 16: "I", 20: "H"}
LARGEST = {"H": 0xFFFF, "I": 0xFFFFFFFF}


def read(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write(members: Members | list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w", method) as out:
        warnings.simplefilter("ignore")
        for name, data in members.items() if isinstance(members, dict) else members:
            out.writestr(zipfile.ZipInfo(name), data, method)
    return written.getvalue()


def edit_members(content: bytes, dice: random.Random) -> bytes:
    """Change the members of an archive that stays valid."""
    members = list(read(content).items())
    i, j = dice.randrange(len(members)), dice.randrange(len(members))
    name, data = members[i]
    match dice.randrange(7):
        case 0:
            del members[i]
        case 1:
            members[i] = dice.choice((*NAMES, members[j][0], name.upper(), name + "x")), data
        case 2:
            members.append((name, members[j][1]))
        case 3:
            members[i], members[j] = (name, members[j][1]), (members[j][0], data)
        case 4:
            members[i] = name, dice.choice((b"", data[:-1], data + b"\0", data * 2, data[: len(data) // 2]))
        case 5:
            members += [(f"archive/data/{n}", b"\0" * 16) for n in range(100, 110)]
        case _:
            dice.shuffle(members)
    method = dice.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    return write(members, method)


def edit_directory(content: bytes, dice: random.Random) -> bytes:
    """Change one or two fields of a local header, of the directory or of its end record."""
    changed = bytearray(content)
    end = content.rfind(b"PK\5\6")
    (start,) = struct.unpack_from("<I", content, end + 16)
    entries, at = [], start
    while content[at : at + 4] == b"PK\1\2":
        entries.append(at)
        at += 46 + sum(struct.unpack_from("<HHH", content, at + 28))
    for _ in range(dice.choice((1, 1, 2))):
        entry = dice.choice(entries)
        (local,) = struct.unpack_from("<I", content, entry + 42)
        base, fields = dice.choice(((entry, ENTRY), (entry, ENTRY), (local, LOCAL), (end, END)))
        field = dice.choice(list(fields))
        form = fields[field]
        (old,) = struct.unpack_from(f"<{form}", content, base + field)
        new = dice.choice((old + 1, old - 1, old * 2, dice.choice(entries), dice.choice(NUMBERS))) & LARGEST[form]
        struct.pack_into(f"<{form}", changed, base + field, new)
    match dice.randrange(12):
        case 0:
            return b"junk" * 8 + bytes(changed)
        case 1:
            return bytes(changed) + b"\0" * 22
        case 2:
            return bytes(changed[:end]) + bytes(changed[end:]) * 2
        case _:
            return bytes(changed)


def inside(wanted: str, edit: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    """Return an edit of a member whose name ends with `wanted`; the archive is written again."""

    def edited(content: bytes, dice: random.Random) -> bytes:
        members = read(content)
        name = dice.choice([name for name in members if name.endswith(wanted)])
        members[name] = edit(members[name], dice)
        return write(members)

    return edited


def edit_npy(content: bytes, dice: random.Random) -> bytes:
    """Edit the header of an array: its type, order and shape."""
    changes = (
        (b"'|b1'", b"'|O'"), (b"'|b1'", b"'<f8'"), (b"'|b1'", b"'|V60000'"), (b"'|b1'", b"'<U9'"), (b"False", b"True "),
        (b"5, 6", b"6, 5"), (b"5, 6", b"-5,6"), (b"(", b"((" * 20), (b"shape", b"shapf"), (b"5, 6", b"9**9**9"),
        (b"\x01\x00", b"\x09\x00"),
        (b"3, 5", b"3, 5, 1"), (b"5", b"99999999999"),
    )  # fmt: skip
    old, new = dice.choice(changes)
    return content.replace(old, new, 1)
