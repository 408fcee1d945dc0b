"""Scans of mapped tensors: exact for every dtype, and at most one chunk of the file stays in memory."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats.torch.checkpoint.safetensors import read_safetensors
from effsparse_cli.formats.torch.checkpoint.storage import (
    CHUNK,
    find_file_offset,
    is_mapped,
    iter_chunks,
    map_file,
    release,
)
from effsparse_cli.formats.torch.tensors import SIGNED, UNSIGNED, is_finite, nonzero, numbers, numbers_of
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import View

NARROW = [*SIGNED, *UNSIGNED]


def every_word(dtype: torch.dtype) -> torch.Tensor:
    words = torch.arange(1 << 8 * dtype.itemsize, dtype=torch.int32)
    return words.to(torch.uint8 if dtype.itemsize == 1 else torch.uint16).view(dtype)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_all_values_of_narrow_floats(dtype: torch.dtype) -> None:
    words = every_word(dtype)
    wide = words.to(torch.float32)
    np.testing.assert_array_equal(nonzero(words), (wide != 0).numpy())
    finite = wide.isfinite()
    assert is_finite(words[finite])
    odd = words[~finite]
    assert not any(is_finite(odd[i : i + 1]) for i in range(0, len(odd), max(len(odd) // 64, 1)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_wide_floats(dtype: torch.dtype) -> None:
    smallest = np.nextafter(0, 1, dtype=np.float32 if dtype == torch.float32 else np.float64)
    values = torch.tensor([0.0, -0.0, float(smallest), float("nan"), float("inf"), -1.0], dtype=dtype)
    assert nonzero(values).tolist() == [False, False, True, True, True, True]
    assert not is_finite(values)
    huge = torch.full((CHUNK,), torch.finfo(dtype).max, dtype=dtype)
    assert is_finite(huge)
    huge[-1] = float("inf")
    assert not is_finite(huge)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8, torch.bool], ids=str)
def test_chunks(tmp_path: Path, dtype: torch.dtype) -> None:
    size = (2 * CHUNK // dtype.itemsize // 7 + 11) * 7
    tensor = (torch.arange(size) % 3).to(dtype).reshape(-1, 7)
    save_file({"w": tensor}, tmp_path / "a")
    mapped = read_safetensors(tmp_path / "a")["w"]
    assert len(list(iter_chunks(mapped))) == 3
    np.testing.assert_array_equal(nonzero(mapped), (tensor != 0).numpy())
    np.testing.assert_array_equal(nonzero(mapped.T), (tensor != 0).numpy().T)
    assert torch.equal(torch.cat([chunk for _, chunk in iter_chunks(mapped)]), tensor.reshape(-1))


def resident() -> int:
    """Return the bytes of mapped files in memory."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssFile:")[1].split()[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("scan", [nonzero, is_finite, numbers], ids=lambda scan: scan.__name__)
def test_scan_releases_memory(tmp_path: Path, scan: object) -> None:
    size = 64 << 20
    save_file({"w": torch.ones(size // 2, dtype=torch.bfloat16)}, tmp_path / "a")
    mapped = read_safetensors(tmp_path / "a")["w"]
    before = resident()
    assert float(mapped.sum(dtype=torch.float32)) > 0
    assert resident() - before > size // 2
    assert callable(scan)
    scan(mapped)
    assert resident() - before < size // 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pass_releases_memory(tmp_path: Path) -> None:
    """The file has many small tensors, one that is read in two parts, and one that is read by columns."""
    width, depth = 1024, 12
    shapes = {f"w{i:02}": (width, width) for i in range(depth)} | {
        "parts": (2 * width, width),
        "turned": (width, width),
    }
    save_file({name: torch.ones(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}, tmp_path / "a")
    layers = [Layer(k, "linear", tuple(v.shape), numbers_of(v)) for k, v in read_safetensors(tmp_path / "a").items()]
    builder = Builder()
    x = builder.source("x", (1, width))
    for layer in layers[:depth]:
        x = builder.contract(x, builder.weight(layer))
    for part in range(2):
        x = builder.contract(x, builder.weight(layers[depth], (width, width), View(part * width**2, (width, 1))))
    x = builder.contract(x, builder.weight(layers[-1], (width, width), View(0, (1, width))))
    before = resident()
    assert analyze_graph(builder.finish([x])).totals.active == (depth + 3) * width**2
    assert resident() - before < 2 << 20


def test_released_pages_are_read_again(tmp_path: Path) -> None:
    save_file({"v": torch.arange(5000), "w": torch.arange(3000)}, tmp_path / "a")
    found = read_safetensors(tmp_path / "a")
    release(found["v"])
    release(found["w"][7:1000:3])
    assert found["v"].tolist() == list(range(5000))
    assert found["w"].tolist() == list(range(3000))


def test_memory_that_is_not_mapped() -> None:
    tensor = torch.arange(100_000)
    release(tensor)
    assert not is_mapped(tensor)
    assert find_file_offset(tensor) is None
    assert tensor.tolist() == list(range(100_000))


def test_an_address_is_forgotten_with_its_map(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    content = map_file(tmp_path / "a")
    tensor = torch.frombuffer(content, dtype=torch.uint8)
    there = tensor.data_ptr()
    assert is_mapped(tensor)
    del tensor, content
    gc.collect()
    for _ in range(64):
        anew = torch.ones(1 << 20, dtype=torch.uint8)
        if anew.data_ptr() <= there < anew.data_ptr() + len(anew):
            release(anew)
            assert bool(anew.all())
    assert not is_mapped(torch.ones(1 << 20, dtype=torch.uint8))
