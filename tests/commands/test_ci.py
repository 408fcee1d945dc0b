"""What people install: the pre-commit hook in a real repository, the GitHub action's script, completion, and the
snippets of docs/ci.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pre_commit.clientlib import load_manifest
from pre_commit.yaml import yaml_load

from effsparse_cli.checks.keys import CHECK_KEYS, LAYER_KEYS, MODEL_KEYS
from effsparse_cli.checks.rules import load_rules
from effsparse_cli.formats.discover import SUFFIXES, WEIGHTS
from tests.checks.models import chain, with_dead_ends, write_mlp
from tests.commands.conftest import Run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")

LOCAL = ("id", "name", "entry", "language", "args", "files", "require_serial")
SNIPPETS = {"github workflow": "github-workflows", "gitlab pipeline": "gitlab-ci"}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with an `effsparse` on its path and nobody's settings."""
    script = tmp_path / "bin" / "effsparse"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m effsparse_cli "$@"\n')
    script.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_", "PRE_COMMIT"))}
    return own | {
        "PATH": f"{script.parent}{os.pathsep}{own['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "test@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }


def test_pre_commit_runs_the_hook(tmp_path: Path, home: dict[str, str]) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=repository, env=home, capture_output=True, text=True)

    (hook,) = load_manifest(ROOT / ".pre-commit-hooks.yaml")
    # The hook as it is published, but run as it stands here: installing it would install torch again.
    hook |= {"language": "system", "args": ["--max-inactive", "0", *hook["args"]]}
    config = {"repos": [{"repo": "local", "hooks": [{key: hook[key] for key in LOCAL}]}]}
    (repository / ".pre-commit-config.yaml").write_text(json.dumps(config))
    (repository / "notes.txt").write_text("not a model\n")
    write_mlp(repository / "model.onnx", chain())
    assert run("git", "init", "-q").returncode == 0
    assert run(sys.executable, "-m", "pre_commit", "install").returncode == 0
    run("git", "add", "-A")
    accepted = run("git", "commit", "-m", "a model")
    assert accepted.returncode == 0, accepted.stderr
    assert "Passed" in accepted.stderr + accepted.stdout
    write_mlp(repository / "model.onnx", with_dead_ends(2))
    run("git", "add", "-A")
    refused = run("git", "commit", "-m", "a worse model")
    output = refused.stderr + refused.stdout
    assert refused.returncode == 1
    assert "model.onnx: EFF004 gap: 2 of 8 kept connections are inactive; at most 0 are allowed" in output
    assert "1 model checked" in output, "the text file is not a model"
    assert run("git", "log", "--format=%s").stdout == "a model\n"


def test_the_hook_takes_the_files_that_a_folder_is_searched_for() -> None:
    (hook,) = load_manifest(ROOT / ".pre-commit-hooks.yaml")
    assert hook["language"] == "python"
    assert all(re.search(hook["files"], f"models/net{suffix}") for suffix in SUFFIXES)
    weights = [name for name in WEIGHTS if not name.endswith(".json")]
    assert all(re.search(hook["files"], f"llama/{name}") for name in (*weights, "pytorch_model-00001-of-00002.bin"))
    assert not any(re.search(hook["files"], name) for name in ("net.onnx.json", "onnx", "net.py", "vocab.bin"))


def test_the_hook_takes_no_options_from_file_names(tmp_path: Path, home: dict[str, str]) -> None:
    """As pre-commit runs it: entry, args, then file names, which a pull request chooses."""
    (hook,) = load_manifest(ROOT / ".pre-commit-hooks.yaml")
    write_mlp(tmp_path / "--no-connected.onnx", chain())
    write_mlp(tmp_path / "-ostolen.onnx", chain())
    command = [*hook["entry"].split(), *hook["args"], "--no-connected.onnx", "-ostolen.onnx"]
    done = subprocess.run(command, cwd=tmp_path, env=home, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 models checked: 2 pass" in done.stdout
    assert not (tmp_path / "stolen.onnx").exists()


def test_the_action_puts_no_text_into_its_scripts() -> None:
    for step in yaml_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_the_action_is_valid() -> None:
    schema_check("vendor.github-actions", ROOT / "action.yml")


@pytest.mark.parametrize(
    ("name", "schema"), [("github workflow", "github-workflows"), ("gitlab pipeline", "gitlab-ci")]
)
def test_snippets_are_valid(tmp_path: Path, name: str, schema: str) -> None:
    (text,) = re.findall(rf"<!-- {name} -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "snippet.yml").write_text(text)
    schema_check(f"vendor.{SNIPPETS[name]}", tmp_path / "snippet.yml")


def schema_check(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("models", "code"), [("good.onnx\n", 0), ("good.onnx\nbad, $(touch owned).onnx\n\n", 1), ("", 0)]
)
def test_the_actions_script(tmp_path: Path, home: dict[str, str], models: str, code: int) -> None:
    *_, step = yaml_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    write_mlp(tmp_path / "good.onnx", chain())
    write_mlp(tmp_path / "bad, $(touch owned).onnx", with_dead_ends(1))
    (tmp_path / "effsparse.toml").write_text('[check]\npaths = ["good.onnx"]\n')
    given = {
        "MODELS": models,
        "ARGUMENTS": "--jobs 1\n--max-inactive 0\n",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=tmp_path, env=home | given, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "")
    assert ("::error file=bad%2C $(touch owned).onnx,title=EFF004 gap::" in done.stdout) == (code == 1)
    assert not (tmp_path / "owned").exists()
    assert (tmp_path / "summary.md").read_text().startswith("**effsparse**: ")


def test_completion(tmp_path: Path, home: dict[str, str]) -> None:
    words = {"_EFFSPARSE_COMPLETE": "complete_bash", "COMP_WORDS": "effsparse check --format ", "COMP_CWORD": "3"}
    done = subprocess.run(["effsparse"], cwd=tmp_path, env=home | words, capture_output=True, text=True)
    assert done.stdout.split() == ["text", "json", "github", "gitlab", "junit", "sarif", "markdown", "html"]


def test_the_table_of_rules(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated from the rules, and "by default" is what a run without bounds checks."""
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "m.onnx", chain())
    (model,) = json.loads(effsparse("check", "m.onnx", "-f", "json").out)["models"]
    head = "| code | name | what must hold | runs |\n|---|---|---|---|\n"
    table = head + "".join(_row(code, code in model["checked"]) for code in load_rules())
    (shown,) = re.findall(r"<!-- rules -->\n(.*?)<!-- end of rules -->", PAGE, re.DOTALL)
    assert shown == table


def _row(code: str, default: bool) -> str:
    about: Any = load_rules()[code].about
    return f"| {code} | {about.name} | {about.summary} | {'by default' if default else 'with a bound'} |\n"


def test_the_project_file_that_is_shown(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "effsparse.toml").write_text(text)
    (tmp_path / "baseline.json").write_text('{"schema_version": 1, "models": {}}')
    outcome = effsparse("check", write_mlp(tmp_path / "m.onnx", chain()), "-f", "json")
    (model,) = json.loads(outcome.out)["models"]
    assert {finding["code"] for finding in model["findings"]} == {"EFF005", "EFF008"}


def test_every_key_is_documented() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {key for row in rows for key in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert named == {*CHECK_KEYS, *MODEL_KEYS, *LAYER_KEYS}
