"""The list of commands is shown without loading them, and says what they say themselves."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields

import pytest

from effsparse_cli.cli import run
from effsparse_cli.commands import COMMANDS, GROUPS, find_command, list_commands
from effsparse_cli.commands.options.load import LoadArguments

WITH_LOADING = [name for name in list_commands() if "input_shape" in find_command(name)[0].__annotations__]


@pytest.mark.parametrize("name", list_commands())
def test_the_list_says_what_the_command_says_first(name: str) -> None:
    said = (find_command(name)[0].__doc__ or "").split("\n\n")[0]
    assert " ".join(said.split()) == list_commands()[name]


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_a_group_names_its_commands(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = show_help([group, "--help"], 80, capsys)
    assert all(f"\n  {name} " in shown for name in GROUPS[group])
    assert f"Usage: effsparse {group} [OPTIONS] COMMAND ..." in shown


@pytest.mark.parametrize("group", GROUPS)
def test_a_wrong_command_of_a_group_has_a_suggestion(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = next(iter(GROUPS[group]))
    assert run([group, f"{name}x"]) == 2
    assert f"error: command {name}x: unknown; did you mean {name}?" in capsys.readouterr().err
    assert run([group, name, "--no-such-option"]) == 2
    assert f"See effsparse {group} {name} --help" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_names_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(arguments)
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*COMMANDS, "[OPTIONS]", "--version", "-h, --help", "Example:\n  effsparse"))


def show_help(arguments: list[str], width: int, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        assert run(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help-all"] for name in WITH_LOADING)])
def test_help_fits_and_says_everything(arguments: list[str], width: int, capsys: pytest.CaptureFixture[str]) -> None:
    shown, widest = show_help(arguments, width, capsys), show_help(arguments, 1000, capsys)
    assert max(map(len, shown.splitlines())) <= min(width, 100)
    assert shown.replace("\\\n", "").split() == widest.replace("\\\n", "").split(), "nothing is cut off"


@pytest.mark.parametrize("name", [*COMMANDS, *list_commands()])
def test_help_shows_no_python_types(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = show_help([*name.split(), "--help"], 80, capsys)
    assert not re.search(r"<\w+>|list\[|None|\bPath\b|\x1b", shown)
    assert all(part in shown for part in ("\nOptions:\n", "-h, --help", "\nExamples:\n  effsparse "))


@pytest.mark.parametrize("name", WITH_LOADING)
def test_help_has_the_commonest_load_options_and_help_all_the_others(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short, full = (show_help([name, option], 80, capsys) for option in ("--help", "--help-all"))
    every = [f"--{each.name.replace('_', '-')}" for each in fields(LoadArguments)]
    assert [option for option in every if f"  {option}" in full] == every
    left_out = [option for option in every if f"  {option} " not in short]
    assert left_out == ["--dim", "--outputs", "--arch-arg", "--key", "--zeros-are-pruned", "--zero-tol", "--trust"]
    assert f"  {len(left_out)} more: effsparse {name} --help-all\n" in short
    assert "more: effsparse" not in full


def test_examples_in_a_narrow_terminal_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    narrow, wide = (show_help(["prune", "--help"], width, capsys).split("Examples:")[1] for width in (45, 100))
    assert "\\\n" in narrow
    assert re.sub(r" \\\n +", " ", narrow) == re.sub(r" \\\n +", " ", wide)
    for line in re.sub(r" \\\n +", " ", narrow).strip().splitlines():
        assert shlex.split(line)[:2] == ["effsparse", "prune"]


@pytest.mark.parametrize("arguments", [["--help"], ["report", "--help"], ["study", "run", "--help"]])
def test_help_loads_little(arguments: list[str]) -> None:
    code = f"import sys; from effsparse_cli.cli import run; run({arguments}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    others = {name.replace(" ", ".") for name in list_commands() if name not in " ".join(arguments)}
    assert not {f"effsparse_cli.commands.{name}" for name in others} & loaded
    assert not {"numpy", "torch", "onnx", "typer.rich_utils", "rich.markdown", "pygments"} & loaded


def test_a_command_after_two_dashes_is_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--", "report", "--help"]) == 0
    assert "--input-shape" in capsys.readouterr().out


def test_completion_knows_the_options_of_a_command() -> None:
    completion = {"_EFFSPARSE_COMPLETE": "complete_bash", "COMP_WORDS": "effsparse report --input", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "effsparse_cli"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | completion)
    assert done.stdout.split() == ["--input-shape"]
