"""The list of commands is shown without loading them, and says what they say themselves."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from effsparse_cli.cli import run
from effsparse_cli.commands import COMMANDS, find_command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says_first(name: str) -> None:
    said = (find_command(name)[0].__doc__ or "").split("\n\n")[0]
    assert " ".join(said.split()) == COMMANDS[name]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_names_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(arguments)
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*COMMANDS, "[OPTIONS]", "--version", "-h, --help", "Example: effsparse"))


@pytest.mark.parametrize("width", [40, 60, 100])
def test_help_fits(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    run(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert {len(line) for line in lines} <= {0, width}
    words = {word.rstrip(".,;:") for line in lines for word in line.strip("│ ").split()}
    assert {word.rstrip(".,;:") for says in COMMANDS.values() for word in says.split()} <= words, "nothing is cut off"


def test_help_loads_little() -> None:
    code = "import sys; from effsparse_cli.cli import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not {f"effsparse_cli.commands.{name}" for name in COMMANDS} & loaded
    assert not {"numpy", "torch", "onnx", "typer.rich_utils", "rich.markdown", "pygments"} & loaded


def test_a_command_after_two_dashes_is_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--", "report", "--help"]) == 0
    assert "--input-shape" in capsys.readouterr().out


def test_completion_knows_the_options_of_a_command() -> None:
    completion = {"_EFFSPARSE_COMPLETE": "complete_bash", "COMP_WORDS": "effsparse report --input", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "effsparse_cli"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | completion)
    assert done.stdout.split() == ["--input-shape"]
