"""`effsparse diff --format html`: the page is written, and opened on request."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from tests.checks.models import chain, with_dead_ends, write_mlp
from tests.commands.conftest import Run
from tests.report.html.documents import Document


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "a.onnx", chain())
    write_mlp(tmp_path / "b.onnx", with_dead_ends(2))
    return ["a.onnx", "b.onnx"]


def test_the_page_is_written_and_opened(
    effsparse: Run, models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    outcome = effsparse("diff", *models, "-f", "html", "-o", "diff.html", "--open", "--exit-code")
    assert (outcome.code, outcome.out) == (1, "")
    assert opened == [(tmp_path / "diff.html").as_uri()]
    document = Document((tmp_path / "diff.html").read_text(encoding="utf-8"))
    assert document.data("effsparse-report") == json.loads(effsparse("diff", *models, "-f", "json").out)
    assert [*document.data("effsparse-view")["pictures"]] == ["fc1", "fc2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--open"], "--open is for web pages: add --format html."),
        (["--open", "-f", "html"], "--open needs a file: add -o FILE.html."),
    ],
)
def test_errors(effsparse: Run, models: list[str], arguments: list[str], message: str) -> None:
    outcome = effsparse("diff", *models, *arguments)
    assert outcome.code == 2
    assert message in outcome.err
