"""`effsparse` and `effsparse_cli` export the same public names, also from an installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import effsparse
import effsparse_cli
from tests.test_rooms import HEAVY, loaded_by

ROOT = Path(__file__).parents[1]


def test_both_modules_export_the_same_names() -> None:
    assert effsparse.__all__ == effsparse_cli.__all__
    assert all(getattr(effsparse, name) is getattr(effsparse_cli, name) for name in effsparse.__all__)


def test_importing_them_loads_no_heavy_library() -> None:
    assert not loaded_by("import effsparse") & (HEAVY | {"numpy"})


def test_a_built_package_contains_both(tmp_path: Path) -> None:
    build = [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path), "build_py", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import effsparse; print(effsparse.__file__)"
    code += "; print(effsparse.analyze.__module__, sys.modules['effsparse_cli'].__file__)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    files = [f"{tmp_path / name / '__init__.py'}" for name in ("effsparse", "effsparse_cli")]
    files.insert(1, "effsparse_cli.api.measuring")
    assert done.stdout.split() == files
