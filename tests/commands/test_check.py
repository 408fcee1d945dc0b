"""`effsparse check` as a gate: several models, exit codes, project files, baselines, and where its output goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from effsparse_cli.analysis import measure
from effsparse_cli.checks.settings import Settings
from effsparse_cli.commands.steps.check_model import CheckTask, judge_model
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.report.findings import FORMATS
from tests.checks.models import chain, dense, with_dead_ends, write_mlp
from tests.commands.conftest import Outcome, Run


@pytest.fixture
def check(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        return effsparse("check", *arguments)

    return run


def models_of(outcome: Outcome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(outcome.out)["models"]
    return found


def test_text(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "a.onnx", with_dead_ends(2))
    write_mlp(tmp_path / "b.onnx", chain())
    outcome = check("a.onnx", "b.onnx", "--max-inactive", "0", "-j", "1")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.splitlines() == [
        "a.onnx: EFF004 gap: 2 of 8 kept connections are inactive; at most 0 are allowed",
        "b.onnx: passes, direct 75.00 %, effective 75.00 % (EFF001, EFF002, EFF004, EFF009, EFF010, EFF011)",
        "2 models checked: 1 passes, 1 fails (EFF004)",
    ]


def test_folders_and_patterns(check: Run, tmp_path: Path) -> None:
    for name in ("models/b.onnx", "models/deep/a.onnx", "models/.cache/c.onnx", "models/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_mlp(tmp_path / name, chain())
    (tmp_path / "models" / "README.txt").write_text("words")
    by_folder = ["models/b.onnx", "models/deep/a.onnx", "models/notes.txt"]
    assert [model["model"] for model in models_of(check("models", "-j", "1", "-f", "json"))] == by_folder
    found = models_of(check("models/**/*.onnx", "models", "models/README.txt", "-j", "1", "-f", "json"))
    assert [model["model"] for model in found] == [*by_folder, "models/README.txt"], (
        "each once, named ones whatever they are"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["good.onnx"], 0),
        (["good.onnx", "bad.onnx"], 1),
        (["good.onnx", "wide.onnx"], 2),
        (["bad.onnx", "wide.onnx"], 2),
        (["bad.onnx", "absent.onnx", "wide.onnx"], 3),
        (["absent.onnx"], 3),
        (["text.onnx", "good.onnx"], 3),
        (["empty"], 3),
        (["no*match"], 3),
        (["good.onnx", "empty"], 3),
    ],
)
def test_the_highest_code_wins(check: Run, tmp_path: Path, arguments: list[str], code: int) -> None:
    write_mlp(tmp_path / "good.onnx", chain())
    write_mlp(tmp_path / "bad.onnx", with_dead_ends(1))
    write_mlp(tmp_path / "wide.onnx", chain())
    (tmp_path / "effsparse.toml").write_text('[models."wide.onnx"]\noutputs = ["nosuch"]\n')
    (tmp_path / "text.onnx").write_text("hello")
    (tmp_path / "empty").mkdir()
    outcome = check(*arguments, "--max-inactive", "0", "-j", "1", "-f", "json")
    assert outcome.code == code
    document = json.loads(outcome.out)
    assert document["exit_code"] == code
    assert len(document["models"]) == len(arguments), "the others are reported all the same"


def test_checking_nothing_is_no_success(check: Run, tmp_path: Path) -> None:
    outcome = check(write_mlp(tmp_path / "m.onnx", chain()), "--select", "EFF004")
    assert outcome.code == 3
    assert "nothing was checked" in outcome.out
    assert check("m.onnx", "--select", "gap,EFF006", "--max-gap", "1").code == 0


def test_select_and_ignore(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    bounds = ["--max-gap", "0", "--min-direct", "1", "-f", "json"]
    (model,) = models_of(check("m.onnx", *bounds, "--select", "EFF004,direct", "--ignore", "EFF012"))
    assert model["checked"] == ["EFF004"]
    (model,) = models_of(check("m.onnx", *bounds, "--ignore", "gap", "--ignore", "direct"))
    assert model["checked"] == ["EFF001", "EFF002", "EFF009", "EFF010", "EFF011"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no MODEL given"),
        (["m.onnx", "--min-effective", "99"], "did you mean 99% (0.99)?"),
        (["m.onnx", "--max-inactive", "-1"], "use an integer, 0 or more"),
        (["m.onnx", "--pattern", "4:2"], "no pattern"),
        (["m.onnx", "--select", "EFF04"], "did you mean EFF004"),
        (["m.onnx", "--ignore", "collapse"], "did you mean collapsed"),
        (["--explain", "EFF999"], "rule EFF999: unknown"),
        (["m.onnx", "--jobs", "0"], "use at least one process"),
        (["m.onnx", "--baseline", "absent.json"], "--write-baseline creates one"),
        (["m.onnx", "--baseline", "m.onnx"], "was not written by effsparse"),
        (["m.onnx", "--write-baseline", "m.onnx"], "never overwritten"),
        (["m.onnx", "-o", "m.onnx"], "never overwritten"),
        (["m.onnx", "--config", "absent.toml"], "cannot be read"),
        (["m.onnx", "--format", "xml"], "--format xml: unknown; choices: text,"),
    ],
)
def test_wrong_usage(check: Run, tmp_path: Path, arguments: list[str], expected: str) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    outcome = check(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[chek]\n", "unknown key 'chek'; did you mean 'check'?"),
        ("[check]\nmin-efective = 0.9\n", "did you mean 'min-effective'?"),
        ("[check]\nmin-effective = 90\n", "min-effective 90: must be between 0 and 1; did you mean 90% (0.9)?"),
        ('[check]\nconnected = "yes"\n', "neither true nor false"),
        ('[models."m.onnx"]\nclams = 0.9\n', "did you mean 'claims'?"),
        ("[check.layers.fc1]\nmin-efective = 0.9\n", "did you mean 'min-effective'?"),
        ("[check]\nlayers = 3\n", "is not a table"),
        ('[check]\nselect = ["EFF0004"]\n', "did you mean EFF004"),
        ("[check\n", "is not valid TOML"),
    ],
)
def test_wrong_project_files(check: Run, tmp_path: Path, text: str, expected: str) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "effsparse.toml").write_text(text)
    outcome = check("m.onnx")
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message


def test_project_file(check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found from a folder below; its paths are its own; the command line comes last."""
    (tmp_path / "models" / "deep").mkdir(parents=True)
    write_mlp(tmp_path / "models" / "m.onnx", chain())
    (tmp_path / "pyproject.toml").write_text(
        '[tool.effsparse.check]\npaths = ["models/*.onnx"]\nmin-effective = 0.9\nbaseline = "base.json"\n'
        '[tool.effsparse.models."models/m.*"]\nmin-effective = 0.75\n'
        '[tool.effsparse.models."gone.onnx"]\nclaim = 0.5\n'
    )
    monkeypatch.chdir(tmp_path / "models" / "deep")
    (tmp_path / "base.json").write_text('{"schema_version": 1, "models": {}}')
    outcome = check("--ignore", "EFF008")
    assert outcome.code == 0
    assert "gone.onnx" in outcome.message
    assert check("--ignore", "EFF008", "--min-effective", "0.8").code == 1
    assert "the baseline does not contain this model" in check().out
    (tmp_path / "other.toml").write_text("[check]\nmin-effective = 0.8\n")
    assert check("../m.onnx", "--config", tmp_path / "other.toml").code == 1


def test_the_projects_model(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "effsparse.toml").write_text('model = "m.onnx"\ninput-shape = "1,4"\n')
    assert check().code == 0
    (tmp_path / "effsparse.toml").write_text('model = "m.onnx"\ninput-shape = "1,5"\n')
    outcome = check()
    assert outcome.code == 2
    assert "1x5" in outcome.out


def test_processes_agree_with_one(check: Run, tmp_path: Path) -> None:
    for i in range(3):
        write_mlp(tmp_path / f"{i}.onnx", with_dead_ends(i))
    (tmp_path / "broken.onnx").write_text("no model")
    one, two = (check(tmp_path, "--max-inactive", "1", "-f", "json", "-j", jobs) for jobs in (1, 2))
    assert one == two
    assert one.code == 3


def test_bugs_have_a_code_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(measure, "analyze_graph", fail)
    verdict = judge_model(CheckTask(write_mlp(tmp_path / "m.onnx", chain()), LoadOptions(), Settings()))
    assert verdict.code == 101
    assert "this is a bug in effsparse (ZeroDivisionError: oops)" in verdict.problem


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "html"])  # a file has links
def test_file_holds_what_would_be_printed(check: Run, tmp_path: Path, form: str) -> None:
    write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    printed = check("m.onnx", "--max-gap", "0", "-f", form)
    written = check("m.onnx", "--max-gap", "0", "-f", form, "-o", "out")
    assert (printed.code, written.code, written.out) == (1, 1, "")
    assert (tmp_path / "out").read_text(encoding="utf-8") == printed.out


def test_step_summary(check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "summary.md").write_text("before\n")
    write_mlp(tmp_path / "m.onnx", chain())
    assert check("m.onnx").code == 0
    assert (tmp_path / "summary.md").read_text() == "before\n", "only the github format writes it"
    assert check("m.onnx", "-f", "github").code == 0
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("before\n**effsparse**: 1 model checked: 1 passes\n\n| model |")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "absent" / "summary.md"))
    outcome = check("m.onnx", "-f", "github")
    assert outcome.code == 0
    assert "cannot be written" in outcome.message


def installed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "effsparse_cli", "check", ".", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_installed_command(tmp_path: Path) -> None:
    """Several processes from a real command line, where there is no test to import."""
    for i in range(2):
        write_mlp(tmp_path / f"{i}.onnx", with_dead_ends(i))
    done = installed(tmp_path, "--max-inactive", "0", "-j", "2")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("0.onnx: passes")


@pytest.mark.slow
def test_twenty_models_use_both_cores(tmp_path: Path, record_property: Any) -> None:
    """Recorded, not asserted: other work on the machine would decide."""
    generator = np.random.default_rng(0)
    weights = dense(*[1500] * 5)
    for weight in weights.values():
        weight[generator.random(weight.shape) < 0.9] = 0
    first = write_mlp(tmp_path / "00.onnx", weights)
    for i in range(1, 20):
        shutil.copy(first, tmp_path / f"{i:02}.onnx")
    for jobs in ("1", "2"):
        start = time.perf_counter()
        done = installed(tmp_path, "-j", jobs)
        record_property(f"seconds with -j {jobs}", time.perf_counter() - start)
        assert done.returncode == 0
        assert done.stdout.endswith("20 models checked: 20 pass\n")


def test_a_problem_names_its_model_once(check: Run, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    outcome = check(tmp_path / "text.onnx")
    assert outcome.code == 3
    assert outcome.out.splitlines()[0].count("text.onnx") == 1
    assert "is not a model: it is a text file" in outcome.out
