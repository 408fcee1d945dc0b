"""Whatever is wrong with a command line, a file or a target: one paragraph, the right code, nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands.conftest import SAMPLES, Run


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "empty.pt").touch()
    (folder / "text.pt").write_text("hello, this is not a model\n")
    (folder / "noise.pt").write_bytes(bytes(range(256)) * 8)
    (folder / "cut.pt").write_bytes((SAMPLES / "figure1.pt").read_bytes()[:1500])
    (folder / "folder.pt").mkdir()
    return folder


@pytest.mark.parametrize("name", ["absent.pt", "empty.pt", "text.pt", "noise.pt", "cut.pt", "folder.pt"])
def test_unreadable_files(effsparse: Run, broken: Path, name: str) -> None:
    before = files_in(broken)
    outcome = effsparse("report", broken / name, "-o", broken / "out.json")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith("error: ")
    assert name in outcome.message
    assert "Traceback" not in outcome.err
    assert "\n\n" not in outcome.err
    assert files_in(broken) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["figure1.pt", "--input-shape", "1,4"], "1x4"),
        (["figure1.pt", "--input-shape", "1,three"], "'three' is not a size"),
        (["figure1.pt", "--input-shape", "1,-3"], "'-3' is not a size"),
        (["figure1.pt", "--input-shape", "1,3", "--input-shape", "1,3"], "given twice"),
        (["figure1.pt", "--input-shape", "nosuch=1,3"], "nosuch"),
        (["figure1.pt", "--outputs", "nosuch"], "nosuch"),
        (["figure1.pt", "--dim", "batch"], "NAME=SIZE"),
        (["figure1.pt", "--layers", "fc9.*"], "fc1"),
        (["figure1.pt", "--sort", "size"], "'size' is not one of order,"),
        (["figure1.pt", "--format", "xml"], "'xml' is not one of table,"),
        (["figure1.pt", "--engine", "steam"], "'steam' is not one of bits,"),
        (["figure1.pt", "--device", "cuda"], "--engine"),
        (["figure1.pt", "--active-masks", "masks.pt"], ".safetensors or .npz"),
        (["figure1.pt", "-o", "figure1.pt"], "never overwritten"),
        (["figure1.pt", "-o", "absent/out.txt"], "no folder"),
        (["figure1.pt", "-o", "."], "is a folder"),
        (["figure1.pt", "-o", "both.npz", "--active-masks", "both.npz"], "a file of its own"),
        (["figure1.pt", "--nosuch"], "No such option"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage(effsparse: Run, arguments: list[str], said: str) -> None:
    before = sorted(os.listdir(SAMPLES))
    outcome = effsparse("report", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.message
    assert "Traceback" not in outcome.err
    assert sorted(os.listdir(SAMPLES)) == before


def test_unwritable_target(effsparse: Run, tmp_path: Path) -> None:
    outcome = effsparse("report", "figure1.pt", "-o", tmp_path / ("n" * 300))
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot be written" in outcome.message


def test_failed_report_writes_no_masks(effsparse: Run, tmp_path: Path) -> None:
    outcome = effsparse("report", "figure1.pt", "--layers", "absent", "--active-masks", tmp_path / "active.npz")
    assert outcome.code == 2
    assert not list(tmp_path.iterdir())
