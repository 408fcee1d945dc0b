"""Damage model files: flip bytes, truncate, change numbers in headers, change members of an archive with correct
checksums. The result depends only on the seed."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile
from collections.abc import Callable

EDGES = (0, 1, 2, 7, 0x7F, 0x80, 0xFF)
NUMBERS = ("0", "-1", "1", "3", "4294967296", "9223372036854775807", "18446744073709551616", "1e30", "null", "[]")


def mutate(content: bytes, seed: int) -> bytes:
    """Return a damaged copy that depends only on the seed."""
    chance = random.Random(seed)
    done = content
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        done = chance.choice(MUTATIONS)(done, chance)
    return done


def flip(content: bytes, chance: random.Random) -> bytes:
    """Flip bits, anywhere or near the start, where headers are."""
    changed = bytearray(content)
    reach = chance.choice((len(changed), min(len(changed), 512)))
    for _ in range(chance.choice((1, 1, 2, 8)) if reach else 0):
        changed[chance.randrange(reach)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def overwrite(content: bytes, chance: random.Random) -> bytes:
    """Overwrite a run of bytes with boundary values."""
    changed = bytearray(content)
    start = chance.randrange(len(changed) + 1)
    for i in range(start, min(start + chance.choice((1, 2, 4, 8, 64)), len(changed))):
        changed[i] = chance.choice(EDGES)
    return bytes(changed)


def truncate(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def cut(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + content[start + chance.choice((1, 2, 16, 256)) :]


def repeat(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + content[start : start + chance.choice((1, 8, 256))] + content[start:]


def number(content: bytes, chance: random.Random) -> bytes:
    """Change a number of a JSON header, and the length of the header with it."""
    (length,) = struct.unpack("<Q", content[:8].ljust(8, b"\0"))
    if not 2 <= length <= len(content) - 8:
        return overwrite(content, chance)
    header = content[8 : 8 + length].decode("latin-1")
    places = list(re.finditer(r"\d+|F32|I64|BOOL", header))
    if not places:
        return flip(content, chance)
    place = chance.choice(places)
    header = header[: place.start()] + chance.choice((*NUMBERS, "F64", "U8", "X9")) + header[place.end() :]
    size = chance.choice((len(header), len(header), length))
    return struct.pack("<Q", size) + header.encode("latin-1") + content[8 + length :]


def member(content: bytes, chance: random.Random) -> bytes:
    """Change a member of an archive, and write it again with correct sizes and checksums."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:
        return flip(content, chance)
    if not members:
        return flip(content, chance)
    name = chance.choice([n for n in members if n.endswith(".pkl")] * 3 + list(members))
    members[name] = chance.choice((flip, overwrite, truncate, cut, repeat))(members[name], chance)
    if chance.random() < 0.1:
        del members[chance.choice(list(members))]
    written = io.BytesIO()
    with zipfile.ZipFile(
        written, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as out:
        for each, data in members.items():
            out.writestr(each, data)
    return written.getvalue()


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip,
    flip,
    overwrite,
    truncate,
    cut,
    repeat,
    number,
    member,
    member,
)
