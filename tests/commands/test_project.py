"""What a project names once: found from any folder of it, checked, and overruled by the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from effsparse_cli.commands.project import find_project
from effsparse_cli.errors import UsageError
from tests.commands.conftest import SAMPLES, Run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\nname = "x"\n[tool.effsparse]\nmodel = "m.pt"\ninput-shape = "1,3"\n'),
        ("effsparse.toml", 'model = "m.pt"\ninput-shape = ["1,3"]\n[check]\n'),
        ("effsparse.toml", 'model = "m.pt"\ninput-shape = [1, 3]\n'),
    ],
)
def test_found_from_folders_below(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    project = find_project(below, None)
    assert (project.model, project.input_shape) == (tmp_path / "m.pt", ("1,3",))


def test_effsparse_toml_comes_first_and_silence_is_passed_over(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text('[project]\nname = "x"\n')
    (tmp_path / "pyproject.toml").write_text('[tool.effsparse]\nmodel = "a.pt"\n')
    assert find_project(inner, None).model == tmp_path / "a.pt"
    (tmp_path / "effsparse.toml").write_text('model = "b.pt"\n')
    assert find_project(inner, None).model == tmp_path / "b.pt"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('modle = "m.pt"', "did you mean 'model'"),
        ("model = 3", "is no text"),
        ("model = ", "is no TOML"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "effsparse.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        find_project(tmp_path, None)


def test_a_whole_command(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SAMPLES / "figure1.pt", tmp_path)
    (tmp_path / "effsparse.toml").write_text('model = "figure1.pt"\n')
    monkeypatch.chdir(tmp_path)
    assert "figure1.pt: " in effsparse("prune", "--lsq", "igq", "--target", "0.9").out
    (tmp_path / "effsparse.toml").write_text("")
    refused = effsparse("prune", "--lsq", "igq", "--target", "0.9")
    assert refused.code == 2
    assert "no MODEL given" in refused.message
