"""Runs command lines in this process, through the same boundary as the installed command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from effsparse_cli.cli import run

SAMPLES = Path(__file__).parents[2] / "sample_models"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Standard error with its line breaks undone."""
        return " ".join(self.err.split())


Run = Callable[..., Outcome]


@pytest.fixture
def effsparse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(SAMPLES)

    def outcome(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return outcome
