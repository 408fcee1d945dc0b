"""Checks that a zip file has one meaning: every byte of it belongs to exactly one member or to the one directory, and
the directory agrees with the headers of the members. Readers differ in what they make of any other zip file, so it is
refused before a reader opens it."""

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
"""In a field of two or four bytes: the number is in the zip64 record instead."""
LOCAL_HEADER, ENTRY, END, END64, LOCATOR = 30, 46, 22, 56, 20


class AmbiguousError(LoadError):
    """The zip file is damaged, or was made to be read in more than one way."""


@dataclass(frozen=True)
class Member:
    """`start` is where its bytes begin, `packed` how many there are, `size` how many they are once unpacked. `entry`
    is the place of its entry in the directory, `header` that of its own header."""

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
    """The members of a zip file in the order of its directory, or an error if the file is ambiguous."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _checked(content)
    except AmbiguousError as error:
        raise AmbiguousError(
            f"{path} is refused: {error}. It is damaged, or was made to be read in two ways. Fetch or save it again."
        ) from None
    except (OSError, ValueError, struct.error) as error:
        raise LoadError(f"{path} is a damaged or truncated zip file ({str(error)[:120]}). Fetch it again.") from error


def check_names(path: Path, members: list[Member]) -> str:
    """The top-level folder that torch's own archives have. Its reader ignores case, and takes the folder of the first
    member to be that of all."""
    folders = {member.name.partition("/")[0] if "/" in member.name else "" for member in members}
    if len(folders) > 1 or "" in folders:
        raise AmbiguousError(f"{path} is refused: the members of its zip file are not all in one folder")
    check_case(path, members)
    return folders.pop() if folders else ""


def check_case(path: Path, members: list[Member]) -> None:
    seen: dict[str, str] = {}
    for member in members:
        other = seen.setdefault(member.name.casefold(), member.name)
        if other != member.name:
            raise AmbiguousError(f"{path} is refused: {other} and {member.name} in it differ only in case")


def _checked(content: mmap.mmap) -> list[Member]:
    directory = _find_directory(content)
    members = list(_read_entries(content, directory))
    names = set[str]()
    for member in members:
        if member.name in names:
            raise AmbiguousError(f"it holds {member.name} twice")
        names.add(member.name)
    at = 0
    for member in sorted(members, key=lambda each: each.header):
        if member.header != at:
            raise AmbiguousError(f"there are bytes before {member.name} that no member owns, or two members overlap")
        at = _end_of(content, member)
    if at != directory.start:
        raise AmbiguousError("there are bytes before its directory that no member owns, or a member reaches into it")
    return members


def _find_directory(content: mmap.mmap) -> _Directory:
    """Only where every reader looks first: the record of the end is the end of the file."""
    end = len(content) - END
    if end < 0 or content[end : end + 4] != b"PK\x05\x06" or content[-2:] != b"\0\0":
        raise AmbiguousError("it does not end with a zip directory, so it is truncated or something was appended")
    disk, first_disk, here, count, size, start, _ = struct.unpack_from("<HHHHLLH", content, end + 4)
    if disk or first_disk or here != count:
        raise AmbiguousError("its directory is spread over several files")
    locator = end - LOCATOR
    if locator >= 0 and content[locator : locator + 4] == b"PK\x06\x07":
        end, count, size, start = _wide_end(content, locator, (count, size, start))
    elif count == NARROW or WIDE in (size, start):
        raise AmbiguousError("its directory refers to a zip64 record that is missing")
    if start + size != end:
        raise AmbiguousError("its directory is not where the file says")
    return _Directory(start, end, count)


def _wide_end(content: mmap.mmap, locator: int, narrow: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """The zip64 form of the record of the end, which must repeat what the plain one says."""
    disk, at, disks = struct.unpack_from("<LQL", content, locator + 4)
    if disk or disks != 1 or at + END64 != locator or content[at : at + 4] != b"PK\x06\x06":
        raise AmbiguousError("its zip64 record is not where the file says")
    length, _, _, disk, first_disk, here, count, size, start = struct.unpack_from("<QHHLLQQQQ", content, at + 4)
    if length != END64 - 12 or disk or first_disk or here != count:
        raise AmbiguousError("its zip64 record makes no sense")
    for short, wide, limit in zip(narrow, (count, size, start), (NARROW, WIDE, WIDE), strict=True):
        if short not in (wide, limit):
            raise AmbiguousError("its two records of the end disagree")
    return at, count, size, start


def _read_entries(content: mmap.mmap, directory: _Directory) -> Iterator[Member]:
    at, found = directory.start, 0
    while at < directory.end:
        if at + ENTRY > directory.end or content[at : at + 4] != b"PK\x01\x02":
            raise AmbiguousError("its directory is cut short")
        fields = struct.unpack_from("<HHHHHHLLLHHHHHLL", content, at + 4)
        _, _, flags, method, _, _, checksum, packed, size, n_name, n_extra, n_comment, disk, _, _, header = fields
        after = at + ENTRY + n_name + n_extra + n_comment
        if after > directory.end or n_comment or disk:
            raise AmbiguousError("an entry of its directory makes no sense")
        raw = content[at + ENTRY : at + ENTRY + n_name]
        extra = content[at + ENTRY + n_name : at + ENTRY + n_name + n_extra]
        size, packed, header = _widened(extra, (size, packed, header))
        name = _checked_name(raw, flags)
        if method not in (STORED, DEFLATED) or flags & ~(DESCRIPTOR | UTF8 | 0x06):
            raise AmbiguousError(f"{name} is encrypted, or packed in a way that no model file has")
        if method == STORED and packed != size:
            raise AmbiguousError(f"{name} has two sizes")
        start = _check_header(content, header, directory.start, raw, (flags, method, checksum, packed, size))
        yield Member(name, method, flags, checksum, packed, size, header, start, at)
        at, found = after, found + 1
    if found != directory.entries:
        raise AmbiguousError(f"its directory has {found} entries and says {directory.entries}")


def _checked_name(raw: bytes, flags: int) -> str:
    try:
        name = raw.decode("utf-8" if flags & UTF8 else "ascii")
    except UnicodeDecodeError:
        raise AmbiguousError(f"readers decode the name {raw[:60]!r} differently") from None
    parts = name.split("/")
    if not name or not name.isprintable() or "\\" in name or {"", ".", ".."} & set(parts) or ":" in parts[0]:
        raise AmbiguousError(f"{name[:60]!r} is not a name for a member")
    return name


def _extras(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if at + 4 + length > len(extra):
            raise AmbiguousError("an extra field is cut short")
        yield kind, extra[at + 4 : at + 4 + length]
        at += 4 + length
    if extra[at:].strip(b"\0"):
        raise AmbiguousError("an extra field is cut short")


def _widened(extra: bytes, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes and places, taken from the zip64 field where the header has no room for them."""
    found = list(_extras(extra))
    if any(kind == UNICODE_PATH for kind, _ in found):
        raise AmbiguousError("a member has a second name")
    wide = [value for kind, value in found if kind == ZIP64]
    missing = [i for i, number in enumerate(numbers) if number == WIDE]
    if len(wide) > 1 or (missing and not wide) or (wide and len(wide[0]) < 8 * len(missing)):
        raise AmbiguousError("the zip64 field of a member makes no sense")
    result = list(numbers)
    for place, i in enumerate(missing):
        (result[i],) = struct.unpack_from("<Q", wide[0], 8 * place)
    return tuple(result)


def _check_header(
    content: mmap.mmap, at: int, limit: int, name: bytes, expected: tuple[int, int, int, int, int]
) -> int:
    """Where the member's bytes begin; its own header must repeat what the directory says of it."""
    if at + LOCAL_HEADER > limit or content[at : at + 4] != b"PK\x03\x04":
        raise AmbiguousError(f"{name!r} is not where the directory says")
    flags, method, checksum, packed, size = expected
    _, own_flags, own_method, _, _, own_checksum, own_packed, own_size, n_name, n_extra = struct.unpack_from(
        "<HHHHHLLLHH", content, at + 4
    )
    start: int = at + LOCAL_HEADER + n_name + n_extra
    own_name = content[at + LOCAL_HEADER : at + LOCAL_HEADER + n_name]
    extra = content[at + LOCAL_HEADER + n_name : start]
    if (own_flags, own_method, own_name) != (flags, method, name) or start + packed > limit:
        raise AmbiguousError(f"the directory and the header of {name!r} disagree")
    own_size, own_packed = _widened(extra, (own_size, own_packed))
    same = (own_checksum, own_packed, own_size) == (checksum, packed, size)
    later = flags & DESCRIPTOR and not (own_checksum or own_packed or own_size)
    if not same and not later:
        raise AmbiguousError(f"the directory and the header of {name!r} disagree")
    return start


def _end_of(content: mmap.mmap, member: Member) -> int:
    """Behind the member's bytes, and behind the record of its sizes that may follow them."""
    end = member.start + member.packed
    if not member.flags & DESCRIPTOR:
        return end
    for form in ("<LQQ", "<LLL"):
        length = 4 + struct.calcsize(form)
        there = content[end : end + length]
        expected = (member.checksum, member.packed, member.size)
        if len(there) == length and there[:4] == b"PK\x07\x08" and struct.unpack_from(form, there, 4) == expected:
            return end + length
    raise AmbiguousError(f"the record behind {member.name} disagrees with the directory")
