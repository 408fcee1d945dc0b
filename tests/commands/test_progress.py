"""Progress shows on a terminal after a while, goes away again, and never shows anywhere else."""

from __future__ import annotations

import io
import sys
import time

import pytest

from effsparse_cli.commands.shared import progress
from effsparse_cli.progress import step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called in the test itself: between a fixture and its test, pytest puts its own stream back."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def test_long_work_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    stream = terminal(monkeypatch)
    with progress.progress_shown(), step("reading model.pt"):
        give_up = time.monotonic() + 60
        while "reading model.pt" not in stream.getvalue() and time.monotonic() < give_up:
            time.sleep(0.01)
    assert "reading model.pt" in stream.getvalue()
    assert stream.getvalue().rpartition("\x1b[2K")[2].strip() == "\x1b[?25h", "the line is erased at the end"


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 3600.0)
    stream = terminal(monkeypatch)
    with progress.progress_shown(), step("reading model.pt"):
        pass
    assert stream.getvalue().strip() == ""


def test_pipe_shows_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with progress.progress_shown(), step("reading model.pt"):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_errors_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress.progress_shown(), step("reading model.pt"):
        raise ZeroDivisionError


def test_names_are_neither_markup_nor_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    stream = terminal(monkeypatch)
    with progress.progress_shown(), step("reading [/nope]\x1b]0;title\x07\n"):
        give_up = time.monotonic() + 60
        while "[/nope]" not in stream.getvalue() and time.monotonic() < give_up:
            time.sleep(0.01)
    assert r"[/nope]\x1b]0;title\x07\n" in stream.getvalue()
