"""`effsparse report --format html`: the page is written, opened on request, and refused where it has no meaning."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path

import pytest

from tests.checks.models import chain, with_dead_ends, write_mlp
from tests.commands.conftest import Run
from tests.report.html.documents import Document


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_mlp(tmp_path / "m.onnx", with_dead_ends(2))


def test_the_page_is_written_and_opened(
    effsparse: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    target = tmp_path / "report.html"
    outcome = effsparse("report", str(model), "-f", "html", "-o", str(target), "--open", "--curve")
    assert (outcome.code, outcome.out) == (0, "")
    assert opened == [target.as_uri()]
    document = Document(target.read_text(encoding="utf-8"))
    assert document.data("effsparse-report") == json.loads(effsparse("report", str(model), "-f", "json").out)
    view = document.data("effsparse-view")
    assert [node["kind"] for node in view["network"]["nodes"]][:1] == ["input"]
    assert view["pictures"].keys() == {layer["name"] for layer in document.data("effsparse-report")["layers"]}
    assert view["curve"]["points"]


def test_without_options_nothing_is_opened(effsparse: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", pytest.fail)
    outcome = effsparse("report", str(model), "--format", "html")
    assert outcome.code == 0
    assert Document(outcome.out).data("effsparse-view")["curve"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--open"], "--open is for web pages: add --format html."),
        (["--curve", "-f", "json"], "--curve is for web pages: add --format html."),
        (["--open", "-f", "html"], "--open needs a file: add -o FILE.html."),
        (["-f", "html", "--direct-only"], "--direct-only has no format 'html'"),
        (["-f", "html", "-q"], "--format cannot be used with --quiet"),
    ],
)
def test_errors(effsparse: Run, model: Path, arguments: list[str], message: str) -> None:
    outcome = effsparse("report", str(model), *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_several_models_have_no_page(effsparse: Run, model: Path, tmp_path: Path) -> None:
    other = write_mlp(tmp_path / "n.onnx", chain())
    outcome = effsparse("report", str(model), str(other), "-f", "html", "-o", str(tmp_path / "report.html"))
    assert outcome.code == 2
    assert "several models have no format 'html'" in outcome.err
    assert not (tmp_path / "report.html").exists()


def test_a_terminal_gets_an_error_instead_of_markup(
    effsparse: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    outcome = effsparse("report", str(model), "-f", "html")
    assert outcome.code == 2
    assert "add -o FILE.html" in outcome.err
