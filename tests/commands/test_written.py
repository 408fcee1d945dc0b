"""Outputs of repair and compact are read back before they are renamed, so a damaged file never replaces the target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.compaction import execute as compacted
from effsparse_cli.folding import execute as repaired
from tests.commands.conftest import Run
from tests.commands.killed import contents
from tests.commands.test_kills import CASES, LENET, SHAPE, module, program, split_onnx, tensors, whole_onnx

MENDED = {
    "mend, onnx": (whole_onnx, "repair", ["--target", "0.996"], "out.onnx"),
    "mend, data beside": (split_onnx, "repair", ["--target", "0.996"], "out.onnx"),
    "mend, module": (module, "repair", [*SHAPE, "--target", "0.996"], "out.pt"),
    "mend, program": (program, "repair", ["--target", "0.996"], "out.pt2"),
    "mend, tensors": (tensors, "repair", [*LENET, "--target", "0.9995"], "out.safetensors"),
}
CHECKS = [
    (repaired, "check_repaired"),
    (repaired, "check_revived"),
    (compacted, "check_onnx"),
    (compacted, "check_module"),
]
SPOILT = 512


def damage(file: Path) -> None:
    """In the middle, where weights are."""
    files = file.iterdir() if file.is_dir() else [file, *file.parent.glob("*.data")]
    largest = max(files, key=lambda each: each.stat().st_size)
    content = bytearray(largest.read_bytes())
    middle = len(content) // 2
    content[middle : middle + SPOILT] = bytes(byte ^ 0x41 for byte in content[middle : middle + SPOILT])
    largest.write_bytes(content)


@pytest.mark.parametrize("name", [*CASES, *MENDED])
def test_a_damaged_file_gets_no_name(
    name: str, effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, command, options, target = (CASES | MENDED)[name]
    read, written = tmp_path / "read", tmp_path / "written"
    read.mkdir()
    written.mkdir()
    source = make(read)
    given = contents(read)
    paths_checked: list[Path] = []

    def first_damaged(check: Callable[..., None]) -> Callable[..., None]:
        def checked(written: Any, *more: Any, **named: Any) -> None:
            path = getattr(written, "path", written)
            paths_checked.append(path)
            damage(path)
            check(written, *more, **named)

        return checked

    for room, check in CHECKS:
        monkeypatch.setattr(room, check, first_damaged(getattr(room, check)))
    outcome = effsparse(command, source, *options, "-o", written / target)
    assert len(paths_checked) == 1
    assert outcome.code != 0
    assert outcome.out == ""
    assert list(written.iterdir()) == []
    assert contents(read) == given
