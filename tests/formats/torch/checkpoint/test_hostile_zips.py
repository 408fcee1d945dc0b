"""Ambiguous zip files are refused before any reader opens them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from effsparse_cli.cli import run
from effsparse_cli.errors import LoadError
from effsparse_cli.formats.masks.files import read_masks
from effsparse_cli.formats.sniff import sniff
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors
from effsparse_cli.formats.zip_members import AmbiguousError, read_members
from tests.formats.torch.checkpoint.hostile_zips import MAKERS, build, members


def test_number_of_cases() -> None:
    assert len(MAKERS) >= 25


def test_torch_reads_what_the_builder_writes(tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_bytes(build(members()))
    (tmp_path / "wide.pt").write_bytes(build(members(), zip64={}))
    expected = torch.load(tmp_path / "m.pt")
    for name in ("m.pt", "wide.pt"):
        found = read_tensors(open_pickled(tmp_path / name), "").tensors
        assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())


@pytest.mark.parametrize("name", MAKERS)
def test_ambiguous_files_are_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.pt"
    file.write_bytes(MAKERS[name](members()))
    with pytest.raises(LoadError):
        read_tensors(open_pickled(file), "")
    assert run(["report", str(file), "--direct-only"]) == 3
    out, err = capsys.readouterr()
    assert not out
    assert "m.pt" in err
    assert list(tmp_path.iterdir()) == [file]


def test_masks_and_programs_are_checked(tmp_path: Path) -> None:
    np.savez(tmp_path / "masks.npz", a=np.ones(3, bool))
    whole = (tmp_path / "masks.npz").read_bytes()
    (tmp_path / "masks.npz").write_bytes(whole + whole)
    with pytest.raises(LoadError, match=r"--masks: .* refused"):
        read_masks(tmp_path / "masks.npz")
    for content in (b"PK\3\4" + bytes(100), whole[:-1], whole + b"\0"):
        (tmp_path / "m.pt2").write_bytes(content)
        with pytest.raises(AmbiguousError):
            sniff(tmp_path / "m.pt2")


def test_files_of_torch_and_numpy(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(3)}, tmp_path / "modèle.pt")
    np.savez_compressed(tmp_path / "masks.npz", A=np.ones(3), a=np.ones(3))
    assert len(read_members(tmp_path / "masks.npz")) == 2
    assert sniff(tmp_path / "modèle.pt") == "pickled"
