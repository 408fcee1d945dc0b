"""Safetensors files of the library are read exactly, and damaged ones are errors; nothing outside the file is read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.sniff import sniff
from effsparse_cli.formats.torch.checkpoint.safetensors import DTYPES, read_safetensors
from effsparse_cli.formats.torch.checkpoint.storage import find_file_offset, is_mapped


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def forged(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(shape: list[Any], start: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_dtypes_are_read_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    raw = torch.arange(48 * dtype.itemsize, dtype=torch.uint8)
    tensor = (raw % 2).bool()[:48] if dtype == torch.bool else raw.view(dtype)
    one, none = tensor[:1].clone().reshape(()), tensor[:0].clone().reshape(0, 3)
    tensors = {"w": tensor.reshape(6, 8), "one": one, "none": none}
    save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    found = read_safetensors(tmp_path / "a.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in load_file(tmp_path / "a.safetensors").items():
        assert found[name].dtype == dtype
        assert found[name].shape == tensor.shape
        assert bits(found[name]) == bits(tensor)


def test_tensors_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"w": torch.full((4,), 7.0)}, path)
    tensor = read_safetensors(path)["w"]
    assert is_mapped(tensor)
    assert is_mapped(tensor[2:].detach())
    location = find_file_offset(tensor)
    assert location is not None
    assert path.read_bytes()[location[1] :] == bits(tensor)
    tensor.zero_()
    assert read_safetensors(path)["w"].tolist() == [7.0] * 4


def test_unaligned_tensor(tmp_path: Path) -> None:
    header = json.dumps({"w": entry([2], 0, 8)}).encode()
    path = forged(tmp_path / "a", header + b" " * ((7 - len(header)) % 8), struct.pack("<2f", 1.5, -2.0))
    assert read_safetensors(path)["w"].tolist() == [1.5, -2.0]


def test_header_that_starts_like_a_pickle(tmp_path: Path) -> None:
    """A length of 640 is stored as the bytes 80 02."""
    header = json.dumps({"w": entry([1], 0, 4)}).encode()
    path = forged(tmp_path / "a", header + b" " * (640 - len(header)), bytes(4))
    assert path.read_bytes()[:2] == b"\x80\x02"
    assert sniff(path) == "safetensors"


FLOATS = bytes(16)
BAD: dict[str, tuple[object, bytes, str]] = {
    "not JSON": (b"{nonsense", b"", "damaged safetensors header"),
    "not text": (b"{\xff\xfe}", b"", "damaged safetensors header"),
    "deep": (b'{"w":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"", "damaged safetensors header"),
    "a list": (b"[1]", b"", "not a JSON object"),
    "a name twice": (b'{"w":{},"w":{}}', b"", "duplicate name"),
    "no table": ({"w": 3}, b"", "no dtype and offsets"),
    "unknown type": ({"w": entry([4], 0, 16, "F6_E2M3")}, FLOATS, "F6_E2M3.*not supported"),
    "dtype of another type": ({"w": entry([4], 0, 16) | {"dtype": ["F32"]}}, FLOATS, "not supported"),
    "negative size": ({"w": entry([-4], 0, 16)}, FLOATS, r"the shape \[-4\]"),
    "float size": ({"w": entry([4.0], 0, 16)}, FLOATS, r"the shape \[4.0\]"),
    "size true": ({"w": entry([True], 0, 4)}, FLOATS, "the shape"),
    "huge": ({"w": entry([2**40, 2**40], 0, 16)}, FLOATS, "the shape"),
    "huge and empty": ({"w": entry([0, 2**62, 2**62], 0, 0)}, b"", "the shape"),
    "shape and bytes differ": ({"w": entry([5], 0, 16)}, FLOATS, "needs 20 bytes and has 16"),
    "negative offset": ({"w": entry([4], -16, 0)}, FLOATS, "has the offsets"),
    "one offset": ({"w": entry([4], 0, 16) | {"data_offsets": [0]}}, FLOATS, "has the offsets"),
    "reversed offsets": ({"w": entry([4], 16, 0)}, FLOATS, "needs 16 bytes and has -16"),
    "after the end": ({"w": entry([8], 0, 32)}, FLOATS, "truncated: its tensors need 32 bytes, and it has 16"),
    "gap": ({"v": entry([1], 0, 4), "w": entry([2], 8, 16)}, FLOATS, "w leaves a gap before it"),
    "overlap": ({"v": entry([2], 0, 8), "w": entry([3], 4, 16)}, FLOATS, "w overlaps another tensor"),
    "more bytes": ({"w": entry([2], 0, 8)}, FLOATS, "bytes after its last tensor"),
}


@pytest.mark.parametrize("case", BAD)
def test_damaged_headers(tmp_path: Path, case: str) -> None:
    header, data, message = BAD[case]
    with pytest.raises(LoadError, match=message):
        read_safetensors(forged(tmp_path / "a.safetensors", header, data))


@pytest.mark.parametrize("length", [10**6, 2**63, 2**64 - 1])
def test_header_longer_than_the_file(tmp_path: Path, length: int) -> None:
    with pytest.raises(LoadError, match="not a complete safetensors file"):
        read_safetensors(forged(tmp_path / "a", b"{}", length=length))


@pytest.mark.parametrize("left", [0, 5, 8, 40, 130])
def test_truncated_file(tmp_path: Path, left: int) -> None:
    save_file({"w": torch.ones(16), "v": torch.ones(16)}, tmp_path / "a")
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:left])
    with pytest.raises(LoadError):
        read_safetensors(tmp_path / "a")
