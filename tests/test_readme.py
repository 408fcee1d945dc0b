"""The README's commands are run, and what it shows is what they print. UPDATE_DOCS=1 writes the output anew."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from effsparse_cli.cli import run
from tests.pages import ROOT, run_page

README = ROOT / "README.md"
INSTALL = re.compile(r"<!-- (report|test) command -->\n```sh\n(.*)\n```\n")


def text() -> str:
    return README.read_text(encoding="utf-8")


def test_code_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_page(README, tmp_path, capsys, monkeypatch)
    assert done.shown
    assert "totals" in done.names


def test_install_commands_stand_alone() -> None:
    found = dict(INSTALL.findall(text()))
    assert found.keys() == {"report", "test"}
    for command in found.values():
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt ")


def test_report_command_reports(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its last step: the first two are what .ci/run does to get here."""
    monkeypatch.chdir(ROOT)
    *_, last = dict(INSTALL.findall(text()))["report"].split(" && ")
    assert run(shlex.split(last.removeprefix(".venv/bin/effsparse "))) == 0
    assert "lenet300_uniform99.pt" in capsys.readouterr().out


def test_links_exist() -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text()):
        assert (ROOT / link).exists(), link


def test_it_does_not_claim_to_be_on_a_package_index() -> None:
    pages = [README, *(ROOT / "docs").glob("*.md")]
    for page in pages:
        assert not re.search(r"pip install '?effsparse", page.read_text(encoding="utf-8")), page
