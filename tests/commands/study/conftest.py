"""Studies on the command line, with a fast experiment in place of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.api import studying
from tests.commands.conftest import Outcome
from tests.commands.conftest import Run as Run
from tests.study import fake
from tests.study.studies import BASE, to_toml


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effsparse: Run) -> Run:
    """Run `effsparse study` in an empty folder."""
    monkeypatch.setattr(studying, "_find_recipe", fake.find_recipe)
    monkeypatch.setattr(studying, "_find_experiment", lambda: fake.run_experiment)
    monkeypatch.setattr(studying, "_check_tasks", lambda study, file, gpus: None)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        return effsparse("study", *arguments)

    return run


def write(**changes: Any) -> Path:
    path = Path("small.toml")
    path.write_text(to_toml({**BASE, "title": "Small", **changes}), encoding="utf-8")
    return path
