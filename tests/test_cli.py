"""Errors become messages and exit codes; closed pipes and interrupts end quietly."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import effsparse_cli
from effsparse_cli.api import measuring
from effsparse_cli.cli import run
from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.report.analysis import FORMATS

ROOT = Path(__file__).parents[1]
SAMPLE = str(ROOT / "sample_models" / "figure1.pt")
WITHOUT_TORCH = str(ROOT / "sample_models" / "lenet5.onnx")
COMMAND = [sys.executable, "-m", "effsparse_cli"]
# The same command with a precomputed analysis: these tests are about the streams only.
PRECOMPUTED = """
from effsparse_cli.api import measuring
from effsparse_cli.report.analysis.report import Report
from tests.report.cases import HEADLINE
measuring.measure = lambda *_, **__: (None, Report.of(HEADLINE))
from effsparse_cli.cli import main
main()
"""
QUICK = [sys.executable, "-c", PRECOMPUTED]


def failing_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(measuring, "measure", fail)
    return run(["report", WITHOUT_TORCH])


@pytest.mark.parametrize(("error", "code"), [(UsageError("say it so"), 2), (LoadError("say it so"), 3)])
def test_expected_errors(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing_with(error, monkeypatch) == code
    assert capsys.readouterr() == ("", "error: say it so\n")


def test_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("EFFSPARSE_DEBUG", raising=False)
    assert failing_with(ZeroDivisionError("oh"), monkeypatch) == 101
    message = capsys.readouterr().err
    assert "bug in effsparse (ZeroDivisionError: oh)" in message
    assert "Traceback" not in message


def test_bug_with_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("EFFSPARSE_DEBUG", "1")
    assert failing_with(ZeroDivisionError("oh"), monkeypatch) == 101
    assert "Traceback" in capsys.readouterr().err


def test_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing_with(KeyboardInterrupt(), monkeypatch) == 130
    assert capsys.readouterr() == ("", "")


def test_other_signals_clean_up_too() -> None:
    code = (
        "import os, signal, sys, effsparse_cli.cli as cli\n"
        "cli.check_command = lambda arguments: os.kill(os.getpid(), getattr(signal, arguments[0]))\n"
        "cli.main()"
    )
    for name, expected in (("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)):
        done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (expected, "", "")
    ignored = subprocess.run(
        f"trap '' HUP; {shlex.join([sys.executable, '-c', code, 'SIGHUP'])}", shell=True, check=False
    )
    assert ignored.returncode == 2  # the command goes on: there is none of this name


def test_missing_permission(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    error = PermissionError(13, "Permission denied", "/data/tasks")
    assert failing_with(error, monkeypatch) == 3
    assert capsys.readouterr().err == "error: /data/tasks cannot be used: Permission denied.\n"


def test_a_log_on_a_full_disk_ends_nothing() -> None:
    code = "from effsparse_cli.commands.shared.output import note; note('one'); note('two'); print('done')"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, check=False)
    assert done.stdout == "done\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"effsparse {effsparse_cli.__version__}\n"


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--help"]) == 0
    assert "effsparse report model.pt --input-shape 1,3,32,32" in capsys.readouterr().out


def test_real_command_line() -> None:
    done = subprocess.run([*COMMAND, "report", SAMPLE, "-f", "csv"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith("total,,,21,10,5,")
    assert done.stderr == ""


def test_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*QUICK, "report", WITHOUT_TORCH], stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_closed_streams_are_ignored() -> None:
    line = shlex.join([*QUICK, "report", WITHOUT_TORCH]) + " >&- 2>&-"
    assert subprocess.run(line, shell=True, cwd=ROOT, check=False).returncode == 0


def test_full_disk_is_not_reported_as_a_bug() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*QUICK, "report", WITHOUT_TORCH], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
        )
    assert (done.returncode, done.stderr) == (2, "error: standard output cannot be written: No space left on device.\n")


@pytest.mark.parametrize(("encoding", "rule"), [("ascii", "---"), ("utf-8", "───")])
def test_glyphs_depend_on_the_encoding(encoding: str, rule: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([*QUICK, "report", WITHOUT_TORCH], capture_output=True, env=environment, cwd=ROOT, check=True)
    assert rule in done.stdout.decode(encoding)
    assert b"\x1b" not in done.stdout


def test_completion_offers_the_choices() -> None:
    completion = {"_EFFSPARSE_COMPLETE": "complete_bash", "COMP_WORDS": "effsparse report --format ", "COMP_CWORD": "3"}
    code = "from effsparse_cli.cli import main; main()"
    environment = {**os.environ, **completion}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert done.stdout.split() == list(FORMATS)
