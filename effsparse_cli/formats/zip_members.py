"""Read the members of a zip file after checking that it is unambiguous: every byte belongs to one member or to the one
directory, and the directory agrees with the members' headers. Zip readers disagree about any other file, so it is
refused."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from effsparse_cli.errors import LoadError

STORED, DEFLATED = 0, 8
DESCRIPTOR, UTF8 = 0x08, 0x800
ZIP64, UNICODE_PATH = 0x0001, 0x7075
NARROW, WIDE = 0xFFFF, 0xFFFFFFFF
"""Values of two- and four-byte fields whose number is in the zip64 record instead."""
LOCAL_HEADER, DIRECTORY_ENTRY, END, END64, LOCATOR = 30, 46, 22, 56, 20
"""Sizes of records."""


class AmbiguousError(LoadError):
    """The zip file is damaged, or different readers would read it differently."""


@dataclass(frozen=True)
class Member:
    """One member. `start` is the offset of its bytes, `packed` their number, `size` their number once decompressed;
    `header` and `entry` are the offsets of its own header and of its entry in the directory."""

    name: str
    method: int
    flags: int
    checksum: int
    packed: int
    size: int
    header: int
    start: int
    entry: int


class _Directory(NamedTuple):
    start: int
    end: int
    entries: int


def read_members(path: Path) -> list[Member]:
    """Return the members in the order of the directory; raise an error if the file is ambiguous."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _read_checked(content)
    except AmbiguousError as error:
        raise AmbiguousError(
            f"{path} is refused: {error}. It is damaged, or was made to be ambiguous. Download or save it again."
        ) from None
    except (OSError, ValueError, struct.error) as error:
        raise LoadError(
            f"{path} is a damaged or truncated zip file ({str(error)[:120]}). Download it again."
        ) from error


def check_names(path: Path, members: list[Member]) -> str:
    """Return the folder of an archive that torch wrote, whose reader assumes one folder and ignores case."""
    folders = {member.name.partition("/")[0] if "/" in member.name else "" for member in members}
    if len(folders) > 1 or "" in folders:
        raise AmbiguousError(f"{path} is refused: its zip members are not all in one folder. Save it again with torch.")
    check_case(path, members)
    return folders.pop() if folders else ""


def check_case(path: Path, members: list[Member]) -> None:
    seen: dict[str, str] = {}
    for member in members:
        other = seen.setdefault(member.name.casefold(), member.name)
        if other != member.name:
            raise AmbiguousError(f"{path} is refused: its members {other} and {member.name} differ only in case.")


def _read_checked(content: mmap.mmap) -> list[Member]:
    directory = _find_directory(content)
    members = list(_read_entries(content, directory))
    names = set[str]()
    for member in members:
        if member.name in names:
            raise AmbiguousError(f"it contains {member.name} twice")
        names.add(member.name)
    at = 0
    for member in sorted(members, key=lambda each: each.header):
        if member.header != at:
            raise AmbiguousError(f"bytes before {member.name} belong to no member, or two members overlap")
        at = _find_end(content, member)
    if at != directory.start:
        raise AmbiguousError("bytes before its directory belong to no member, or a member overlaps the directory")
    return members


def _find_directory(content: mmap.mmap) -> _Directory:
    """Return the directory that every reader finds: its end record must be the end of the file."""
    end = len(content) - END
    if end < 0 or content[end : end + 4] != b"PK\x05\x06" or content[-2:] != b"\0\0":
        raise AmbiguousError("it does not end with a zip directory: it is truncated, or something was appended")
    disk, first_disk, here, count, size, start, _ = struct.unpack_from("<HHHHLLH", content, end + 4)
    if disk or first_disk or here != count:
        raise AmbiguousError("its directory is spread over several files")
    locator = end - LOCATOR
    if locator >= 0 and content[locator : locator + 4] == b"PK\x06\x07":
        end, count, size, start = _read_zip64_end(content, locator, (count, size, start))
    elif count == NARROW or WIDE in (size, start):
        raise AmbiguousError("its directory refers to a zip64 record that is missing")
    if start + size != end:
        raise AmbiguousError("its directory is not at the stated offset")
    return _Directory(start, end, count)


def _read_zip64_end(content: mmap.mmap, locator: int, narrow: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """Read the zip64 end record, which must agree with the short one."""
    disk, at, disks = struct.unpack_from("<LQL", content, locator + 4)
    if disk or disks != 1 or at + END64 != locator or content[at : at + 4] != b"PK\x06\x06":
        raise AmbiguousError("its zip64 record is not at the stated offset")
    length, _, _, disk, first_disk, here, count, size, start = struct.unpack_from("<QHHLLQQQQ", content, at + 4)
    if length != END64 - 12 or disk or first_disk or here != count:
        raise AmbiguousError("its zip64 record is invalid")
    for short, wide, limit in zip(narrow, (count, size, start), (NARROW, WIDE, WIDE), strict=True):
        if short not in (wide, limit):
            raise AmbiguousError("its two end records disagree")
    return at, count, size, start


def _read_entries(content: mmap.mmap, directory: _Directory) -> Iterator[Member]:
    at, found = directory.start, 0
    while at < directory.end:
        if at + DIRECTORY_ENTRY > directory.end or content[at : at + 4] != b"PK\x01\x02":
            raise AmbiguousError("its directory is truncated")
        fields = struct.unpack_from("<HHHHHHLLLHHHHHLL", content, at + 4)
        _, _, flags, method, _, _, checksum, packed, size, n_name, n_extra, n_comment, disk, _, _, header = fields
        after = at + DIRECTORY_ENTRY + n_name + n_extra + n_comment
        if after > directory.end or n_comment or disk:
            raise AmbiguousError("an entry of its directory is invalid")
        raw = content[at + DIRECTORY_ENTRY : at + DIRECTORY_ENTRY + n_name]
        extra = content[at + DIRECTORY_ENTRY + n_name : at + DIRECTORY_ENTRY + n_name + n_extra]
        size, packed, header = _read_zip64_sizes(extra, (size, packed, header))
        name = _check_name(raw, flags)
        if method not in (STORED, DEFLATED) or flags & ~(DESCRIPTOR | UTF8 | 0x06):
            raise AmbiguousError(f"{name} is encrypted, or compressed by a method that model files do not use")
        if method == STORED and packed != size:
            raise AmbiguousError(f"{name} has two different sizes")
        start = _check_header(content, header, directory.start, raw, (flags, method, checksum, packed, size))
        yield Member(name, method, flags, checksum, packed, size, header, start, at)
        at, found = after, found + 1
    if found != directory.entries:
        raise AmbiguousError(f"its directory has {found} entries instead of {directory.entries}")


def _check_name(raw: bytes, flags: int) -> str:
    try:
        name = raw.decode("utf-8" if flags & UTF8 else "ascii")
    except UnicodeDecodeError:
        raise AmbiguousError(f"readers decode the name {raw[:60]!r} differently") from None
    parts = name.split("/")
    if not name or not name.isprintable() or "\\" in name or {"", ".", ".."} & set(parts) or ":" in parts[0]:
        raise AmbiguousError(f"{name[:60]!r} is not a valid member name")
    return name


def _read_extras(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if at + 4 + length > len(extra):
            raise AmbiguousError("an extra field is truncated")
        yield kind, extra[at + 4 : at + 4 + length]
        at += 4 + length
    if extra[at:].strip(b"\0"):
        raise AmbiguousError("an extra field is truncated")


def _read_zip64_sizes(extra: bytes, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return sizes and offsets, from the zip64 field where the header has no room for them."""
    extras = list(_read_extras(extra))
    if any(kind == UNICODE_PATH for kind, _ in extras):
        raise AmbiguousError("a member has a second name")
    wide = [value for kind, value in extras if kind == ZIP64]
    missing = [i for i, number in enumerate(numbers) if number == WIDE]
    if len(wide) > 1 or (missing and not wide) or (wide and len(wide[0]) < 8 * len(missing)):
        raise AmbiguousError("the zip64 field of a member is invalid")
    result = list(numbers)
    for position, i in enumerate(missing):
        (result[i],) = struct.unpack_from("<Q", wide[0], 8 * position)
    return tuple(result)


def _check_header(
    content: mmap.mmap, at: int, limit: int, name: bytes, expected: tuple[int, int, int, int, int]
) -> int:
    """Return the offset of a member's bytes; its own header must agree with the directory."""
    if at + LOCAL_HEADER > limit or content[at : at + 4] != b"PK\x03\x04":
        raise AmbiguousError(f"{name!r} is not at the offset in the directory")
    flags, method, checksum, packed, size = expected
    _, own_flags, own_method, _, _, own_checksum, own_packed, own_size, n_name, n_extra = struct.unpack_from(
        "<HHHHHLLLHH", content, at + 4
    )
    start: int = at + LOCAL_HEADER + n_name + n_extra
    own_name = content[at + LOCAL_HEADER : at + LOCAL_HEADER + n_name]
    extra = content[at + LOCAL_HEADER + n_name : start]
    if (own_flags, own_method, own_name) != (flags, method, name) or start + packed > limit:
        raise AmbiguousError(f"the directory and the header of {name!r} disagree")
    own_size, own_packed = _read_zip64_sizes(extra, (own_size, own_packed))
    same = (own_checksum, own_packed, own_size) == (checksum, packed, size)
    later = flags & DESCRIPTOR and not (own_checksum or own_packed or own_size)
    if not same and not later:
        raise AmbiguousError(f"the directory and the header of {name!r} disagree")
    return start


def _find_end(content: mmap.mmap, member: Member) -> int:
    """Return the offset after a member's bytes and the data descriptor that may follow them."""
    end = member.start + member.packed
    if not member.flags & DESCRIPTOR:
        return end
    for form in ("<LQQ", "<LLL"):
        length = 4 + struct.calcsize(form)
        there = content[end : end + length]
        expected = (member.checksum, member.packed, member.size)
        if len(there) == length and there[:4] == b"PK\x07\x08" and struct.unpack_from(form, there, 4) == expected:
            return end + length
    raise AmbiguousError(f"the data descriptor of {member.name} disagrees with the directory")
