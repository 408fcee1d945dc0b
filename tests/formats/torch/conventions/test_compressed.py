"""Files of the compressed-tensors library, and bitmasks that do not fit their values."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.layouts import decompress
from tests.formats.torch.conventions.models import a_mask, kept, resolved
from tests.torchvision_models import models

WEIGHT = torch.randn(6, 20, generator=torch.Generator().manual_seed(4)) * a_mask(6, 20)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]


Compress = Callable[[torch.Tensor], dict[str, torch.Tensor]]


def compressors() -> ModuleType:
    """Import the library late: it imports transformers and torchvision, which is slow."""
    models()
    return importlib.import_module("compressed_tensors.compressors.sparse_compressors")


@pytest.fixture(scope="module")
def bitmasked() -> Compress:
    library = compressors()
    return lambda weight: library.sparse_bitmask.BitmaskTensor.from_dense(weight).dict("layer.weight")


@pytest.fixture(scope="module")
def two_of_four() -> Compress:
    library = compressors()
    return lambda weight: library.sparse_24_bitmask.Sparse24BitMaskTensor.from_dense(weight).dict("layer.weight")


@pytest.mark.parametrize("dtype", DTYPES)
def test_bitmask(dtype: torch.dtype, bitmasked: Compress) -> None:
    weight = WEIGHT.to(dtype)
    state = bitmasked(weight)
    assert set(state) == {f"layer.weight.{part}" for part in ("shape", "compressed", "bitmask", "row_offsets")}
    found = resolved(state)
    assert list(found.tensors) == ["layer.weight"]
    assert found.tensors["layer.weight"].is_meta
    assert (kept(found, "layer.weight") == (weight.float() != 0).numpy()).all()
    assert torch.equal(found.values["layer.weight"]().float(), weight.float())


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_of_four(dtype: torch.dtype, two_of_four: Compress) -> None:
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(5)).to(dtype)
    state = two_of_four(weight)
    assert set(state) == {f"layer.{part}" for part in ("shape", "compressed", "bitmask")}
    found = resolved(state)
    assert list(found.tensors) == ["layer.weight"]
    groups = kept(found, "layer.weight").reshape(-1, 4).sum(axis=1)
    assert groups.max() <= 2
    stored = (state["layer.compressed"].float() != 0).sum()
    assert groups.sum() == stored


def test_explicit_zeros_of_two_of_four_are_zeros(two_of_four: Compress) -> None:
    weight = torch.zeros(2, 8)
    weight[0, 0] = 1
    found = resolved(two_of_four(weight))
    assert kept(found, "layer.weight").sum() == 1


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_decompress_inverts_compress(rows: int, columns: int, density: float, seed: int) -> None:
    """The reference packs bit by bit, the lowest bit of each byte first."""
    random = np.random.default_rng(seed)
    dense = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < density)
    bits = np.zeros((rows, -(-columns // 8)), np.uint8)
    for row, column in zip(*np.nonzero(dense), strict=True):
        bits[row, column // 8] |= 1 << (column % 8)
    stored = torch.from_numpy(dense[dense != 0])
    assert torch.equal(decompress(stored, torch.from_numpy(bits), (rows, columns)), torch.from_numpy(dense))
    state = {"w.weight.shape": torch.tensor([rows, columns]), "w.weight.compressed": stored}
    found = resolved({**state, "w.weight.bitmask": torch.from_numpy(bits)})
    assert (kept(found, "w.weight") == (dense != 0)).all()


def without_one(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**state, "layer.weight.compressed": state["layer.weight.compressed"][:-1]}


def of_shape(*shape: Any) -> Any:
    return lambda state: {**state, "layer.weight.shape": torch.tensor(shape)}


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (without_one, r"has \d+ bits set, but the file stores \d+ values"),
        (of_shape(7, 20), "does not fit a weight of shape 7x20"),
        (of_shape(6, 40), "does not fit a weight of shape 6x40"),
        (of_shape(3, 2, 20), None),
        (of_shape(1, 144), "has rows of 3 bytes instead of 18"),
        (of_shape(-6, 20), "sizes must be positive"),
        (of_shape(10**9, 10**9), "when made dense; the limit is"),
        (of_shape(1.5, 2.0), "not a list of sizes"),
    ],
)
def test_forged(forge: Any, message: str | None, bitmasked: Compress) -> None:
    state = forge(bitmasked(WEIGHT))
    if message is None:
        assert resolved(state).tensors["layer.weight"].shape == (3, 2, 20)
        return
    with pytest.raises(LoadError, match=message):
        resolved(state)


def test_other_tensors_named_bitmask() -> None:
    state = {"layer.bitmask": torch.ones(4, dtype=torch.uint8), "layer.weight": torch.ones(2, 2)}
    assert set(resolved(state).tensors) == set(state)
