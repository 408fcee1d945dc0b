"""Ambiguous zip files: each maker turns the members of a checkpoint into one."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zipfile import ZipFile

import torch

LOCAL, ENTRY, END = "<4sHHHHHLLLHH", "<4sHHHHHHLLLHHHHHLL", "<4sHHHHLLH"
END64, LOCATOR = "<4sQHHLLQQQQ", "<4sLQL"
DESCRIPTOR = 8


@dataclass
class Entry:
    """A member; `local` and `central` change fields of its own header and of its entry in the directory."""

    name: str
    data: bytes
    local: dict[str, Any] = field(default_factory=dict)
    central: dict[str, Any] = field(default_factory=dict)
    method: int = 0
    flags: int = 0

    def packed(self) -> bytes:
        if not self.method:
            return self.data
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
        return squeeze.compress(self.data) + squeeze.flush()

    def said(self, changed: dict[str, Any]) -> dict[str, Any]:
        plain = {
            "name": self.name.encode(), "extra": b"", "method": self.method, "flags": self.flags,
            "crc": zlib.crc32(self.data), "packed": len(self.packed()), "size": len(self.data), "comment": b"",
        }  # fmt: skip
        return {**plain, **changed}


def build(
    entries: list[Entry],
    before: bytes = b"",
    between: bytes = b"",
    after: bytes = b"",
    end: dict[str, int] | None = None,
    zip64: dict[str, int] | None = None,
) -> bytes:
    """Return a zip file whose offsets are right except for deliberate changes."""
    out, offsets = bytearray(before), []
    for entry in entries:
        said = entry.said(entry.local)
        offsets.append(len(out))
        head = (b"PK\3\4", 20, said["flags"], said["method"], 0, 0, said["crc"], said["packed"], said["size"])
        out += struct.pack(LOCAL, *head, len(said["name"]), len(said["extra"])) + said["name"] + said["extra"]
        out += entry.packed() + said.get("behind", b"")
    out += between
    start = len(out)
    for entry, offset in zip(entries, offsets, strict=True):
        said = entry.said(entry.central)
        lengths = (len(said["name"]), len(said["extra"]), len(said["comment"]))
        numbers = (20, 20, said["flags"], said["method"], 0, 0, said["crc"], said["packed"], said["size"], *lengths)
        out += struct.pack(ENTRY, b"PK\1\2", *numbers, 0, 0, 0, said.get("offset", offset))
        out += said["name"] + said["extra"] + said["comment"]
    last = {"count": len(entries), "size": len(out) - start, "start": start, "comment": 0, **(end or {})}
    if zip64 is not None:
        wide = {**last, **zip64}
        at = len(out)
        counts = (wide["count"], wide["count"])
        out += struct.pack(END64, b"PK\6\6", 44, 20, 45, 0, 0, *counts, wide["size"], wide["start"])
        out += struct.pack(LOCATOR, b"PK\6\7", 0, wide.get("at", at), 1)
    count = last["count"]
    return bytes(
        out + struct.pack(END, b"PK\5\6", 0, 0, count, count, last["size"], last["start"], last["comment"]) + after
    )


@cache
def _saved() -> tuple[tuple[str, bytes], ...]:
    buffer = io.BytesIO()
    torch.manual_seed(0)
    torch.save({"a.weight": torch.randn(4, 4), "b.weight": torch.randn(4, 4)}, buffer)
    with ZipFile(buffer) as archive:
        return tuple((name, archive.read(name)) for name in archive.namelist())


def members() -> list[Entry]:
    return [Entry(name, data) for name, data in _saved()]


def named(entries: list[Entry], end: str) -> Entry:
    return next(entry for entry in entries if entry.name.endswith(end))


Maker = Callable[[list[Entry]], bytes]
PICKLE, WEIGHT = "data.pkl", "data/0"
OTHER = bytes(64)
"""Other values for the first weight: zeros."""


def _changed(end: str, where: str, **fields: Any) -> Maker:
    def make(entries: list[Entry]) -> bytes:
        getattr(named(entries, end), where).update(fields)
        return build(entries)

    return make


def _with(change: Callable[[list[Entry]], object], **options: Any) -> Maker:
    def make(entries: list[Entry]) -> bytes:
        change(entries)
        return build(entries, **options)

    return make


def _as_is(entries: list[Entry]) -> None:
    pass


def _moved(entries: list[Entry]) -> bytes:
    """The directory gives one weight the offset of another."""
    plain = build(entries)
    second = plain.index(b"PK\3\4", plain.index(b"data/1") - 60)
    named(entries, WEIGHT).central["offset"] = second
    return build(entries)


def _hidden_in_extra(entries: list[Entry]) -> bytes:
    """An extra field contains a whole member, to which the directory points."""
    inner = build([Entry(named(entries, WEIGHT).name, OTHER)])
    local = inner[: inner.index(b"PK\1\2")]
    first = entries[0]
    first.local["extra"] = struct.pack("<HH", 0x4246, len(local)) + local
    named(entries, WEIGHT).central.update(offset=30 + len(first.name) + 4, crc=zlib.crc32(OTHER))
    return build(entries)


def _two_ends(entries: list[Entry]) -> bytes:
    """A second archive follows the first."""
    other = members()
    named(other, WEIGHT).data = OTHER
    return build(entries) + build(other)


def _ends_inside(entries: list[Entry]) -> bytes:
    """The comment is the end record of another archive."""
    other = build([Entry("archive/data.pkl", b"N.")])
    return build(entries, end={"comment": len(other)}, after=other)


def _encrypted(entries: list[Entry]) -> bytes:
    for entry in entries:
        entry.flags = 1
    return build(entries)


def _followed(entries: list[Entry]) -> bytes:
    """A data descriptor follows a member, but the directory does not state it."""
    weight = named(entries, WEIGHT)
    weight.flags = DESCRIPTOR
    weight.local["behind"] = b"PK\x07\x08" + struct.pack("<LLL", 1, 64, 64)
    return build(entries)


def _wide_extra(size: int) -> bytes:
    return struct.pack("<HHQ", 1, 8, size)


MAKERS: dict[str, Maker] = {
    "one member twice": _with(lambda entries: entries.append(Entry(named(entries, WEIGHT).name, OTHER))),
    "one member twice, in other case": _with(lambda entries: entries.append(Entry("archive/DATA/0", OTHER))),
    "two folders": _with(lambda entries: entries.append(Entry("other/data.pkl", b"N."))),
    "a member in no folder": _with(lambda entries: entries.append(Entry("data.pkl", b"N."))),
    "an absolute name": _with(lambda entries: entries.append(Entry("/archive/data/0", OTHER))),
    "a name that climbs": _with(lambda entries: entries.append(Entry("archive/x/../data/0", OTHER))),
    "a name with a NUL": _with(lambda entries: entries.append(Entry("archive/data/0\0.txt", OTHER))),
    "a name with a backslash": _with(lambda entries: entries.append(Entry("archive\\data\\0", OTHER))),
    "a name in no encoding": _changed(WEIGHT, "central", name=b"archive/data/0\xff"),
    "another name in its header": _changed(WEIGHT, "local", name=b"archive/data/1"),
    "another size in its header": _changed(WEIGHT, "local", packed=32, size=32),
    "another size in the directory": _changed(WEIGHT, "central", packed=32, size=32),
    "another method in its header": _changed(WEIGHT, "local", method=8),
    "another checksum in its header": _changed(WEIGHT, "local", crc=1),
    "a wrong checksum": _with(
        lambda entries: [named(entries, WEIGHT).local.update(crc=7), named(entries, WEIGHT).central.update(crc=7)]
    ),
    "a second name": _changed(WEIGHT, "central", extra=struct.pack("<HHBL", 0x7075, 13, 1, 0) + b"data/one"),
    "a wide size that is another": _changed(WEIGHT, "local", size=0xFFFFFFFF, extra=_wide_extra(32)),
    "two wide sizes": _changed(WEIGHT, "central", size=0xFFFFFFFF, extra=_wide_extra(64) + _wide_extra(32)),
    "encrypted": _encrypted,
    "packed in an unusual way": _changed(PICKLE, "central", method=12),
    "a record behind that is another": _followed,
    "moved": _moved,
    "hidden in an extra field": _hidden_in_extra,
    "bytes before": _with(_as_is, before=b"#!/bin/sh\n" + bytes(100)),
    "bytes between": _with(_as_is, between=b"PK\3\4" + bytes(100)),
    "bytes behind": _with(_as_is, after=bytes(30)),
    "two ends": _two_ends,
    "an end in the comment": _ends_inside,
    "a wrong number of entries": _with(_as_is, end={"count": 3}),
    "a directory elsewhere": _with(_as_is, end={"start": 0}),
    "two directories": _with(_as_is, zip64={"start": 0, "size": 0, "count": 0}),
    "a wide end elsewhere": _with(_as_is, zip64={"at": 0}),
}
