"""Whatever is wrong with a command line, a file or a target: one paragraph, the right code, nothing written."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

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
    ("arguments", "expected"),
    [
        (["figure1.pt", "--input-shape", "1,4"], "1x4"),
        (["figure1.pt", "--input-shape", "1,three"], "'three' is not a size"),
        (["figure1.pt", "--input-shape", "1,-3"], "'-3' is not a size"),
        (["figure1.pt", "--input-shape", "1,3", "--input-shape", "1,3"], "given twice"),
        (["figure1.pt", "--input-shape", "nosuch=1,3"], "nosuch"),
        (["figure1.pt", "--outputs", "nosuch"], "nosuch"),
        (["figure1.pt", "--dim", "batch"], "NAME=SIZE"),
        (["figure1.pt", "--layers", "fc9.*"], "fc1"),
        (["figure1.pt", "--sort", "size"], "--sort size: unknown; choices: order,"),
        (["figure1.pt", "--format", "xml"], "--format xml: unknown; choices: table,"),
        (["figure1.pt", "--engine", "steam"], "--engine steam: unknown; choices: bits,"),
        (["figure1.pt", "--device", "cuda"], "--engine"),
        (["figure1.pt", "--active-masks", "masks.pt"], ".safetensors or .npz"),
        (["figure1.pt", "-o", "figure1.pt"], "never overwritten"),
        (["figure1.pt", "-o", "absent/out.txt"], "does not exist"),
        (["figure1.pt", "-o", "."], "is a folder"),
        (["figure1.pt", "-o", "both.npz", "--active-masks", "both.npz"], "use different files"),
        (["figure1.pt", "--nosuch"], "--nosuch: unknown option"),
        ([], "no MODEL given"),
    ],
)
def test_wrong_usage(effsparse: Run, arguments: list[str], expected: str) -> None:
    before = sorted(os.listdir(SAMPLES))
    outcome = effsparse("report", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message
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


def torch_files(folder: Path) -> dict[str, str]:
    """Files that torch writes but that are not models, with the error message for each."""
    torch.save({}, folder / "empty.pt")
    torch.save(3, folder / "number.pt")
    torch.save({0: torch.ones(2, 2)}, folder / "numbered.pt")
    torch.save(torch.optim.Adam(nn.Linear(2, 2).parameters()).state_dict(), folder / "optimizer.pt")
    torch.save({"weight": torch.empty(2, 2, device="meta")}, folder / "meta.pt")
    torch.save(nn.Linear(2, 2).state_dict(), folder / "state.pt", pickle_protocol=4)
    torch.save(nn.Linear(20, 20).state_dict(), folder / "flipped.pt")
    with zipfile.ZipFile(folder / "flipped.pt") as archive:
        start = next(info.header_offset for info in archive.infolist() if info.filename.endswith("data/0"))
    content = bytearray((folder / "flipped.pt").read_bytes())
    content[start + 200] ^= 1
    (folder / "flipped.pt").write_bytes(content)
    return {
        "empty.pt": "an empty dictionary",
        "number.pt": "a value of type int",
        "numbered.pt": "keys of type int",
        "optimizer.pt": "an optimizer state",
        "meta.pt": "meta device",
        "state.pt": "--arch",
        "flipped.pt": "does not match its checksum",
    }


def test_torch_files_that_are_not_models(effsparse: Run, tmp_path: Path) -> None:
    messages = torch_files(tmp_path)
    before = files_in(tmp_path)
    for name, words in messages.items():
        outcome = effsparse("report", tmp_path / name, "-o", tmp_path / "out.json")
        assert (outcome.code, outcome.out) == (3, "")
        assert words in outcome.message
        assert "Traceback" not in outcome.err
    assert files_in(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--arch", "lenet5"], "Did you mean lenet-5?"),
        (["--arch", "lenet-5"], "does not fit --arch lenet-5"),
        (["--arch", "nosuch:make"], "cannot be imported"),
        (["--arch", "lenet-5", "--arch-arg", "classes"], "KEY=VALUE"),
        (["--arch-arg", "n=3"], "--arch-arg requires --arch"),
        (["--key", "ema", "--arch", "lenet-5"], "has no key ema"),
        (["--direct-only", "--sort", "gap"], "--sort gap needs paths"),
        (["--direct-only", "--active-masks", "m.npz"], "--active-masks cannot be used with --direct-only"),
        (["--direct-only", "--layers", "nose"], "--layers nose: no layer name matches"),
    ],
)
def test_wrong_usage_for_state_dicts(effsparse: Run, tmp_path: Path, options: list[str], expected: str) -> None:
    torch.save(nn.Linear(4, 3).state_dict(), tmp_path / "state.pt")
    outcome = effsparse("report", tmp_path / "state.pt", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message


LONG = "n" * 300


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["report", LONG], 3),
        (["check", LONG], 3),
        (["report", "figure1.pt", "--masks", LONG], 3),
        (["check", "figure1.onnx", "--baseline", LONG], 2),
        (["check", "figure1.onnx", "--write-baseline", LONG], 2),
        (["check", "figure1.onnx", "--config", LONG], 2),
        (["prune", "figure1.pt", "--target", "0.5", "--method", "snip", "--data", f"{LONG}.npz"], 2),
    ],
)
def test_names_that_no_file_can_have(effsparse: Run, command: list[str], code: int) -> None:
    assert effsparse(*command).code == code


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + bytes(40), b"text", b"\x93NUMPY"])
def test_batches_that_are_none(effsparse: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    command = ["prune", "figure1.pt", "--target", "0.5", "--method", "snip", "--data", tmp_path / "data.npz"]
    refused = effsparse(*command)
    assert refused.code == 2
    assert "cannot be read" in refused.message


def test_a_batch_that_asks_for_all_memory(effsparse: Run, tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 1048576), }"
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    command = ["prune", "figure1.pt", "--target", "0.5", "--method", "snip", "--data", tmp_path / "data.npz"]
    assert effsparse(*command).code == 2
