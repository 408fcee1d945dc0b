"""A room imports only from rooms before it, and heavy libraries are imported only where needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from effsparse_cli.commands import list_commands

PACKAGE = Path(__file__).parents[1] / "effsparse_cli"

ORDER = (
    "errors",
    "version",
    "files",
    "formatting",
    "arguments",
    "imports",
    "progress",
    "graph",
    "kernel",
    "paths",
    "formats",
    "analysis",
    "pruning",
    "folding",
    "mending",
    "compaction",
    "checks",
    "comparison",
    "study",
    "report",
    "training",
    "execution",
    "api",
    "__init__",
    "commands",
    "cli",
    "__main__",
)
"""Every module or folder of the package. Each imports only from those before it."""

HEAVY = {"torch", "onnx", "onnx_ir", "onnxruntime", "transformers"}
ONNX = {"onnx", "onnx_ir"}
MAY_LOAD: dict[str, set[str]] = {
    "effsparse_cli.analysis": set(),
    "effsparse_cli.formats": set(),
    "effsparse_cli.formats.onnx": ONNX,
    "effsparse_cli.formats.torch": {"torch"},
    "effsparse_cli.report.analysis": set(),
    "effsparse_cli.formats.writing.masks": set(),
    "effsparse_cli.study.experiment": set(),
    "effsparse_cli.study.recipes": set(),
}


def imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, at the top or later, for running or for typing."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE.name:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def loaded_by(code: str, *arguments: str) -> set[str]:
    """Return the top-level modules loaded after running code in a fresh interpreter."""
    code += "; import sys; print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def rooms() -> list[str]:
    return sorted({path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()})


def files_of(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def test_every_room_has_a_place_in_the_order() -> None:
    assert set(rooms()) == set(ORDER)


@pytest.mark.parametrize("room", rooms())
def test_rooms_import_only_from_earlier_rooms(room: str) -> None:
    allowed = {*ORDER[: ORDER.index(room) + 1], "__version__"}
    for file in files_of(room):
        for module in imports(file):
            package, _, rest = module.partition(".")
            if package == PACKAGE.name and rest:
                assert rest.split(".")[0] in allowed, f"{file.relative_to(PACKAGE)} imports {module}"


@pytest.mark.parametrize("module", MAY_LOAD)
def test_heavy_libraries_are_loaded_where_they_are_needed(module: str) -> None:
    assert loaded_by(f"import {module}") & HEAVY <= MAY_LOAD[module]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([*name.split(), "--help"] for name in list_commands())]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    run = "import sys; from effsparse_cli.cli import run; assert run(sys.argv[1:]) == 0"
    assert not loaded_by(run, *arguments) & (HEAVY | {"numpy"})
