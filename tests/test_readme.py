"""The README's commands are run, and what it shows is what they print. UPDATE_README=1 writes the output anew."""

from __future__ import annotations

import doctest
import os
import re
import shlex
from pathlib import Path

import pytest

from effsparse_cli.cli import run

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SHOWN = re.compile(r"```console\n\$ effsparse (.*)\n((?s:.*?))```\n")
ECHO = "; echo $?"
STORY = re.compile(r"<!-- story.*?<!-- end of story -->", re.DOTALL)
"""Its commands need files that it makes itself: tests/commands/test_released_model.py runs it."""
INSTALL = re.compile(r"<!-- (report|test) command -->\n```sh\n(.*)\n```\n")


def text() -> str:
    return README.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [match[1] for match in SHOWN.finditer(STORY.sub("", text()))])
def test_shown_output(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = command.removesuffix(ECHO)
    code = run(shlex.split(words))
    printed = capsys.readouterr().out
    if command.endswith(ECHO):
        printed += f"{code}\n"
    else:
        assert code == 0
    if os.environ.get("UPDATE_README"):
        block = f"```console\n$ effsparse {command}\n"
        README.write_text(re.sub(re.escape(block) + r"(?s:.*?)```", lambda _: f"{block}{printed}```", text()), "utf-8")
    assert {match[1]: match[2] for match in SHOWN.finditer(text())}[command] == printed


def test_install_commands_stand_alone() -> None:
    found = dict(INSTALL.findall(text()))
    assert found.keys() == {"report", "test"}
    for command in found.values():
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt ")


def test_report_command_reports(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last step, that is: the first two are what .ci/run does to get here."""
    monkeypatch.chdir(ROOT)
    *_, last = dict(INSTALL.findall(text()))["report"].split(" && ")
    assert run(shlex.split(last.removeprefix(".venv/bin/effsparse "))) == 0
    assert "lenet300_uniform99.pt" in capsys.readouterr().out


def test_python_session() -> None:
    outcome = doctest.testfile(str(README), module_relative=False)
    assert outcome.attempted > 0
    assert outcome.failed == 0
