"""Masks come back from both formats as they went in, whatever their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.masks import WRITERS, check_suffix, write_masks

MASKS = {
    "fc1.weight": np.array([[True, False], [False, True]]),
    "file": np.ones((2, 1, 3), dtype=bool),
    "layer/with/slashes": np.zeros((0, 4), dtype=bool),
    "transposed": np.array([[True, False, True], [False, False, True]]).T,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"masks{suffix}"
    write_masks(MASKS, file)
    read = load_file(file) if suffix == ".safetensors" else dict(np.load(file))
    assert read.keys() == MASKS.keys()
    for name, mask in MASKS.items():
        assert read[name].dtype == bool
        np.testing.assert_array_equal(read[name], mask)


def test_equal_masks_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_masks(MASKS, tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_other_suffixes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\.safetensors or \.npz"):
        check_suffix(Path("masks.pt"), "--active-masks")
