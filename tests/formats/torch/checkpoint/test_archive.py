"""The sizes and checksums in a zip archive are checked before its content is used."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint import storage
from effsparse_cli.formats.torch.checkpoint.storage import is_mapped
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors
from tests.formats.torch.checkpoint.hostile import rewritten, with_pickle


def read(path: Path) -> dict[str, torch.Tensor]:
    return dict(read_tensors(open_pickled(path), "").tensors)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    torch.save({"a": torch.randn(30, 30), "b": torch.zeros(200, 200)}, tmp_path / "m.pt")
    return tmp_path / "m.pt"


def test_checksums(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        member = next(info for info in archive.infolist() if info.filename.endswith("data/0"))
    whole = bytearray(file.read_bytes())
    whole[member.header_offset + 200] ^= 1
    file.write_bytes(whole)
    assert not torch.load(file, weights_only=True)["a"].isnan().any(), "torch itself does not notice"
    with pytest.raises(LoadError, match="data/0 does not match its checksum"):
        read(file)


def test_files_without_checksums(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.ones(3, 3)}, tmp_path / "m.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert torch.equal(read(tmp_path / "m.pt")["a"], torch.ones(3, 3))


def test_deflated_members_are_not_mapped(file: Path) -> None:
    before = {name: tensor.clone() for name, tensor in read(file).items()}
    rewritten(file, lambda name, content: content, zipfile.ZIP_DEFLATED)
    for name, tensor in read(file).items():
        assert torch.equal(tensor, before[name])
        assert not is_mapped(tensor)


def test_short_and_long_records(file: Path) -> None:
    whole = file.read_bytes()
    for change in (lambda content: content[:-8], lambda content: content + bytes(8), lambda content: b""):
        file.write_bytes(whole)
        rewritten(file, lambda name, content: change(content) if name.endswith("data/1") else content)  # noqa: B023
        with pytest.raises(LoadError, match="does not have the size"):
            read(file)


def test_missing_and_duplicate_members(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            if not name.endswith("data/1"):
                archive.writestr(name, content)
    with pytest.raises(LoadError, match="data/1 is missing"):
        read(file)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr(next(name for name in members if name.endswith("data.pkl")), b"other")
    with pytest.raises(LoadError, match=r"data\.pkl twice"):
        read(file)


@pytest.mark.parametrize("room", [1 << 20, pytest.param(storage.ROOM, marks=pytest.mark.slow)])
def test_zip_bombs(tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pickle decompresses to a thousand times the file, another is only too long."""
    monkeypatch.setattr(storage, "ROOM", room)
    monkeypatch.setattr(storage, "MAX_MEMBER", min(room // 4, storage.MAX_MEMBER))
    with_pickle(tmp_path / "m.pt", b"\x80\x02(" + b"N" * (3 * room) + b"l.", zipfile.ZIP_DEFLATED)
    assert (tmp_path / "m.pt").stat().st_size < 3 * room // 100
    with pytest.raises(LoadError, match="over 100 times its size"):
        read(tmp_path / "m.pt")
    with_pickle(tmp_path / "m.pt", b"\x80\x02(" + b"N" * (room // 2) + b"l.", zipfile.ZIP_DEFLATED)
    with pytest.raises(LoadError, match=r"data\.pkl has [\d,]+ bytes, far more than in a checkpoint"):
        read(tmp_path / "m.pt")


def test_truncated_files(file: Path) -> None:
    whole = file.read_bytes()
    for length in (40, 500, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(LoadError, match=r"truncated|damaged"):
            read(file)


def test_forged_size(file: Path) -> None:
    """The size of a member is changed in the directory, its checksum is not."""
    whole = bytearray(file.read_bytes())
    entry = whole.rfind(b"PK\x01\x02", 0, whole.rfind(b"data/1"))
    struct.pack_into("<I", whole, entry + 24, 1 << 20)
    file.write_bytes(whole)
    with pytest.raises(LoadError, match="data/1 has two different sizes"):
        read(file)


def test_big_endian_files(file: Path) -> None:
    rewritten(file, lambda name, content: b"big" if name.endswith("byteorder") else content)
    with pytest.raises(LoadError, match="big-endian"):
        read(file)
