"""Run the code blocks of a document from top to bottom, in one folder and one Python namespace.

`console` blocks show commands and their output, which must be what the commands print; UPDATE_DOCS=1 writes it anew.
`sh` blocks show commands only. `python` and `pycon` blocks are run. A block after `<!-- not run -->` is skipped.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.cli import run

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- not run -->\n)?^```(console|sh|python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ECHO = "; echo $?"


@dataclass
class PageRun:
    """One run of a document. `shown` has the exit code and text of every command in a `console` block."""

    capsys: pytest.CaptureFixture[str]
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    shown: list[tuple[int, str]] = field(default_factory=list)

    def run_block(self, block: re.Match[str]) -> str:
        """Run a block, and return it with the output that it has now."""
        skipped, kind, text = block.groups()
        if skipped:
            return block[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "console":
                return f"```console\n{self.run_console(text)}```"
            if kind == "sh":
                self.run_commands(text)
            elif kind == "pycon":
                self.run_session(text)
            else:
                exec(compile(text, "<page>", "exec"), self.names)
        return block[0]

    def run_console(self, text: str) -> str:
        """Run the lines after `$`; lines that end in a backslash continue."""
        fresh = ""
        for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.MULTILINE):
            code, printed = self.run_command(command.removesuffix(ECHO))
            if command.endswith(ECHO):
                printed += f"{code}\n"
            else:
                assert code == 0 or command.startswith("effsparse check"), f"exit code {code}: {command}"
            self.shown.append((code, printed))
            fresh += f"$ {command}\n{printed}"
        return fresh

    def run_commands(self, text: str) -> None:
        """Run the lines that call effsparse. Others install it, or come from other programs."""
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("effsparse "):
                code, printed = self.run_command(line)
                assert code == 0, f"exit code {code}: {line}\n{printed}"

    def run_command(self, command: str) -> tuple[int, str]:
        program, *arguments = shlex.split(command, comments=True)
        assert program == "effsparse", command
        code = run(arguments)
        outcome = self.capsys.readouterr()
        return code, outcome.out if code in (0, 1) else outcome.out + outcome.err

    def run_session(self, text: str) -> None:
        session = doctest.DocTestParser().get_doctest(text, self.names, "page", None, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        report: list[str] = []
        assert runner.run(session, out=report.append, clear_globs=False).failed == 0, "".join(report)
        self.names |= session.globs


def run_page(page: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> PageRun:
    """Run a page in a folder that has the sample models, and compare what it shows."""
    (folder / "sample_models").symlink_to(ROOT / "sample_models")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    text, done = page.read_text(encoding="utf-8"), PageRun(capsys)
    fresh = BLOCK.sub(done.run_block, text)
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(fresh, encoding="utf-8")
    else:
        assert fresh == text
    return done
