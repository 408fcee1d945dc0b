"""Data flows one way: a room imports only rooms to its left, and heavy libraries stay in the rooms that need them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from effsparse_cli.commands import COMMANDS

PACKAGE = Path(__file__).parents[1] / "effsparse_cli"

MAY_IMPORT: dict[str, set[str]] = {
    "kernel": set(),
    "graph": set(),
    "load": {"graph"},
    "paths": {"kernel", "graph"},
    "analyze": {"kernel", "graph", "paths"},
    "training": {"graph", "load", "paths", "analyze", "prune", "save"},
    "prune": {"graph", "paths", "analyze"},
    "repair": {"graph", "load", "paths", "analyze", "prune"},
    "compact": {"graph", "load", "paths", "analyze", "repair"},
    "report": {"graph", "analyze", "compact"},
    "check": {"graph", "paths", "analyze", "report"},
    "diff": {"graph", "paths", "analyze", "report"},
    "save": {"graph", "load"},
    "commands": {"graph", "load", "paths", "analyze", "prune", "repair", "compact", "report", "check", "diff", "save"},
}
HEAVY = {"torch", "onnx", "onnx_ir", "onnxruntime", "transformers"}
ONNX = {"onnx", "onnx_ir"}
MAY_LOAD: dict[str, set[str]] = {
    "effsparse_cli.analyze": set(),
    "effsparse_cli.load": set(),
    "effsparse_cli.load.onnx": ONNX,
    "effsparse_cli.load.torch": {"torch"},
    "effsparse_cli.report": set(),
    "effsparse_cli.save.masks": set(),
}
EVERYONE_MAY = {"errors", "files"}


def imports(file: Path) -> Iterator[str]:
    """Modules that a file imports, at its top or later, to run or for types."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def loaded_by(code: str, *arguments: str) -> set[str]:
    """The top-level modules in a fresh interpreter after it ran the code."""
    code += "; import sys; print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def rooms() -> list[str]:
    return sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("room", rooms())
def test_a_room_imports_only_to_its_left(room: str) -> None:
    allowed = MAY_IMPORT[room] | EVERYONE_MAY | {room}
    for file in (PACKAGE / room).rglob("*.py"):
        for module in imports(file):
            package, _, rest = module.partition(".")
            if package == PACKAGE.name and rest:
                assert rest.split(".")[0] in allowed, f"{file.relative_to(PACKAGE)} imports {module}"


@pytest.mark.parametrize("module", MAY_LOAD)
def test_heavy_libraries_are_loaded_where_they_are_needed(module: str) -> None:
    assert loaded_by(f"import {module}") & HEAVY <= MAY_LOAD[module]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    run = "import sys; from effsparse_cli.cli import run; assert run(sys.argv[1:]) == 0"
    assert not loaded_by(run, *arguments) & (HEAVY | {"numpy"})
