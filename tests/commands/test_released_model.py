"""The README's story of a released model: its Python is run, its commands are run, and what it shows is what they
print. UPDATE_README=1 writes the output anew."""

from __future__ import annotations

import os
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Run

PAGE = Path(__file__).parents[2] / "README.md"
STORY = re.compile(r"<!-- story.*?<!-- end of story -->", re.DOTALL)
BLOCK = re.compile(r"```(python|console)\n((?s:.*?))```\n")
CODES = ["", "EFF006", "EFF002", "EFF004", "EFF009", "EFF001", ""]
"""The rules in the output of each command; the first and the last show none."""


def test_the_story(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown, printed = [], []
    for kind, text in BLOCK.findall(_story()):
        if kind == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(text, names)
            continue
        command, _, output = text.partition("\n")
        outcome = effsparse(*shlex.split(command.removeprefix("$ effsparse ")))
        assert outcome.err == ""
        shown.append(f"{command}\n{output}")
        printed.append((outcome.code, f"{command}\n{outcome.out}"))
    if os.environ.get("UPDATE_README"):
        fresh = iter(f"```console\n{text}```\n" for _, text in printed)
        told = BLOCK.sub(lambda m: m[0] if m[1] == "python" else next(fresh), _story())
        PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(_story(), told), encoding="utf-8")
        shown = [text for _, text in printed]
    assert [code for code, _ in printed] == [0, 1, 1, 1, 1, 1, 0]
    for (_, text), code in zip(printed, CODES, strict=True):
        assert code in text
    assert [text for _, text in printed] == shown


def _story() -> str:
    (found,) = STORY.findall(PAGE.read_text(encoding="utf-8"))
    return str(found)
