"""Project files are found from any subfolder, validated, and overridden by the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from effsparse_cli.commands.shared.project import find_project
from effsparse_cli.errors import UsageError
from tests.checks.models import chain, write_mlp
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
    ("text", "expected"),
    [
        ('modle = "m.pt"', "did you mean 'model'"),
        ("model = 3", "is not a string"),
        ("model = ", "is not valid TOML"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "effsparse.toml").write_text(text)
    with pytest.raises(UsageError, match=expected):
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


CANARY = """
from pathlib import Path
from torch import nn
Path("canary").touch()
def make():
    return nn.Linear(4, 3)
"""


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a pull request could bring it: weights, and code that leaves a trace when it runs."""
    torch.save(nn.Linear(4, 3).state_dict(), tmp_path / "m.pt")
    (tmp_path / "brought.py").write_text(CANARY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("effsparse.toml", '[check]\narch = "brought:make"\ninput-shape = "1,4"\n'),
        ("effsparse.toml", '[models."*.pt"]\narch = "brought:make"\ninput-shape = "1,4"\n'),
        ("pyproject.toml", '[tool.effsparse.check]\narch = "brought:make"\ninput-shape = "1,4"\n'),
    ],
)
def test_a_project_file_runs_no_code(effsparse: Run, brought: Path, name: str, text: str) -> None:
    (brought / name).write_text(text)
    refused = effsparse("check", "m.pt")
    assert refused.code == 2
    assert "runs code" in refused.message
    assert not (brought / "canary").exists()
    assert effsparse("check", "m.pt", "--trust").code == 0
    assert (brought / "canary").exists()


def test_the_command_line_may_run_code(effsparse: Run, brought: Path) -> None:
    (brought / "effsparse.toml").write_text('[check]\narch = "other:make"\n')
    assert effsparse("check", "m.pt", "--arch", "brought:make", "--input-shape", "1,4").code == 0


@pytest.mark.parametrize("key", ["trust", "data", "loss", "device", "output"])
@pytest.mark.parametrize("table", ["", "[check]\n", '[models."*"]\n'])
def test_no_key_trusts_or_loads_data(effsparse: Run, brought: Path, table: str, key: str) -> None:
    (brought / "effsparse.toml").write_text(f"{table}{key} = true\n")
    refused = effsparse("check", "m.pt")
    assert refused.code == 2
    assert f"unknown key '{key}'" in refused.message


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('model = "../secret.pt"', ["prune", "--target", "0.5"]),
        ('model = "../secret.pt"', ["check"]),
        ('[check]\npaths = ["/absent/*"]', ["check"]),
        ('[check]\npaths = ["a/../../*"]', ["check"]),
        ('[check]\nbaseline = "../base.json"', ["check", "m.onnx"]),
        ('[check]\nmasks = "/absent/masks.npz"', ["check", "m.onnx"]),
        ('[models."*"]\nmasks = "../masks.npz"', ["check", "m.onnx"]),
    ],
)
def test_a_project_file_stays_in_its_folder(
    effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, command: list[str]
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    write_mlp(tmp_path / "project" / "m.onnx", chain())
    (tmp_path / "project" / "effsparse.toml").write_text(text)
    refused = effsparse(*command)
    assert refused.code == 2
    assert "is outside the project's folder" in refused.message
    assert "is outside" not in effsparse(*command, "--trust").message


@pytest.mark.parametrize(
    "text",
    [
        "tool = 3",
        "tool = []",
        "[tool]\neffsparse = 3",
        "[tool]\neffsparse = []",
        "check = 3",
        "check = [[]]",
        "models = 3",
        "[models]\nx = 3",
        "[check]\nlayers = [1]",
        "[check.layers]\nx = 1",
        "[check]\nmin-effective = inf",
        "[check]\nmin-effective = nan",
        "[check]\nmin-effective = 1979-05-27",
        f"[check]\nmin-effective = 0x{'f' * 5000}",
        f"[check]\nmax-inactive = 0x{'f' * 5000}",
        f"[check]\nzero-tol = 0x{'f' * 5000}",
        f"[check]\nzero-tol = {'9' * 5000}",
        "[check]\ninput-shape = [true]",
        f"[check]\ninput-shape = [0x{'f' * 5000}]",
        "[check]\ninput-shape = {}",
        "[check]\npaths = [3]",
        '[check]\npaths = ["a\\u0000b"]',
        '[check]\nmasks = "a\\u0000b"',
        "[check]\nbaseline = []",
        "[check]\nmemory-limit = 1e9",
        '[check]\nmemory-limit = "-1GB"',
        "[check]\ntime-limit = -1",
        "[check]\nclaims = []",
        "[check]\nclaims = {}",
        "[check]\npattern = 4",
        "[check]\nselect = {}",
        "x = " + "[" * 100_000,
        "x = " + "{a=" * 50_000,
        "a.b = 1\na.b = 2",
    ],
)
def test_odd_project_files(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "effsparse.toml").write_text(text, encoding="utf-8")
    refused = effsparse("check", "m.onnx")
    assert refused.code == 2, refused.err
    assert len(refused.err) < 1000


def test_project_files_of_windows_editors(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "effsparse.toml").write_text("\ufeff[check]\r\npaths = ['m.onnx']\r\n", encoding="utf-8")
    assert effsparse("check").code == 0


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00" * 10])
def test_project_files_that_are_no_text(
    effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "effsparse.toml").write_bytes(content)
    assert effsparse("check", "m.onnx").code == 2


ODD_BASELINES: list[object] = [
    None, 3, "x", [], {}, {"schema_version": 1}, {"schema_version": 1, "models": 3},
    {"schema_version": 1, "models": []},
    {"schema_version": [], "models": {}}, {"schema_version": 1, "models": {"m": 3}},
    {"schema_version": 1, "models": {"m": {"connections": float("inf"), "kept": 1, "active": 1, "layers": {}}}},
    {"schema_version": 1, "models": {"m": {"connections": "4", "kept": 1, "active": 1, "layers": {}}}},
    {"schema_version": 1, "models": {"m": {"connections": 4, "kept": 1, "active": 1, "layers": []}}},
    {"schema_version": 1, "models": {"m": {"connections": 4, "kept": 1, "active": 1, "layers": {"a": []}}}},
]  # fmt: skip


@pytest.mark.parametrize("content", [*map(json.dumps, ODD_BASELINES), "", "{", "[" * 100_000, "\x00", "1" * 5000])
def test_odd_baselines(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "base.json").write_text(content)
    for option in ("--baseline", "--write-baseline"):
        refused = effsparse("check", "m.onnx", option, "base.json")
        assert refused.code == 2, refused.err
        assert "was not written by effsparse" in refused.message
    assert (tmp_path / "base.json").read_text() == content
