"""`effsparse study`: run, status, retry and export."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Run
from tests.commands.study.conftest import write

FAILING = ["synflow", {"method": "snip", "options": {"fail": True}}]


def test_run_shows_what_is_done(study: Run) -> None:
    done = study("run", write())
    assert done.code == 0
    assert done.out == (
        "Small\n\nmethod               finished  all\nsnip                        4    4\n"
        "random igq                  4    4\nrandom from:synflow         4    4\n"
        "──────────────────────────────────\ntotal                      12   12\n"
    )
    lines = done.err.splitlines()
    assert len(lines) == 12
    assert all(line.startswith("note: lenet_300_100-") and line.endswith(" finished") for line in lines)
    again = study("run", "small.toml")
    assert (again.code, again.out, again.err) == (0, done.out, "")
    assert study("status", "small").out == done.out


def test_failures_have_an_exit_code_and_can_be_retried(study: Run) -> None:
    done = study("run", write(methods=FAILING, compressions=[10]))
    assert done.code == 1
    assert ["total", "2", "2", "4"] in [line.split() for line in done.out.splitlines()]
    assert "failed: the loss is NaN in epoch 2" in done.out
    assert "- effsparse study retry small runs failed tasks again" in done.out
    assert study("run", "small.toml").code == 1
    assert study("retry", "small").code == 1
    Path("small", "mended").touch()
    assert study("run", "small.toml").code == 1
    mended = study("retry", "small")
    assert mended.code == 0
    assert ["total", "4", "4"] in [line.split() for line in mended.out.splitlines()]


def test_the_advice_to_retry_can_be_copied(study: Run) -> None:
    done = study("run", write(model="my.models:build", methods=FAILING, compressions=[10]), "--trust")
    assert "- effsparse study retry small --trust runs failed tasks again" in done.out


def test_unknown_formats(study: Run) -> None:
    study("run", write(compressions=[10], seeds=1))
    assert "-o out.xlsx: no format has this suffix" in study("export", "small", "-o", "out.xlsx").message
    assert study("export", "small", "-o", "out.txt", "-f", "csv").code == 0
    assert "--seeds 0: use 1 or more" in study("plot", "small", "--seeds", "0", "-o", "plot.svg").message


def test_status_before_anything_ran(study: Run) -> None:
    write()
    missing = study("status", "small")
    assert missing.code == 3
    assert "small is not the folder of a study" in missing.message
    assert study("retry", "small").code == 3


def test_export(study: Run) -> None:
    study("run", write(methods=FAILING, compressions=[10]))
    rows = list(csv.DictReader(io.StringIO(study("export", "small").out)))
    assert [row["state"] for row in rows] == ["finished", "finished", "failed", "failed"]
    assert rows[0]["final_kept"] == "1000"
    assert rows[3]["reason"] == "the loss is NaN in epoch 2"
    document = json.loads(study("export", "small", "--format", "json").out)
    assert document["schema_version"] == 1
    assert document["tasks"][0]["result"]["layers"][0] == {
        "name": "fc1",
        "connections": 9000,
        "kept": 800,
        "active": 800,
    }
    assert study("export", "small", "-o", "out.csv").code == 0
    assert Path("out.csv").read_text().startswith("name,state,model,method,lsq,compression")
    assert study("export", "small", "-o", "out.json").code == 0
    assert json.loads(Path("out.json").read_text()) == document


def test_files_of_the_study_are_never_replaced(study: Run) -> None:
    study("run", write(compressions=[10], seeds=1))
    Path("link").symlink_to("small")
    Path("data/mnist").mkdir(parents=True)
    Path("data/mnist/images").touch()
    Path("small/tasks").rename("elsewhere")
    Path("small/tasks").symlink_to(Path("elsewhere").absolute())
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    (task, *_) = Path("small/tasks").iterdir()
    for target in (
        "small/study.toml",
        "link/study.json",
        "small.toml",
        "data/mnist/images",
        str(task / "result.json"),
        str(task / "new.csv"),
    ):
        for command in ("export", "status"):
            done = study(command, "small", "-o", target)
            assert (done.code, f"-o {target} is a file of the study" in done.message) == (2, True)
    assert study("plot", "small", "-o", str(task / "plot.svg")).code == 2
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    assert study("export", "small", "-o", "small/results.csv").code == 0


def test_export_to_parquet(study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    study("run", write(compressions=[10], seeds=1))
    assert "write it to a file" in study("export", "small", "--format", "parquet").message
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        missing = study("export", "small", "--format", "parquet", "-o", "out.parquet")
    assert missing.code == 2
    assert "pip install pyarrow" in missing.message
    assert not Path("out.parquet").exists()
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    assert study("export", "small", "-o", "out.parquet").code == 0
    assert parquet.read_table("out.parquet").column("final_kept").to_pylist() == [1000, 1000, 1000]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "."], ". is a folder, not a study file"),
        (["run", "small.toml", "-j", "0"], "--jobs 0: use at least one process"),
        (["run", "small.toml", "--cpus", "0"], "--cpus 0: use at least one CPU"),
        (["run", "small.toml", "--address", "auto"], "--address is for --engine ray"),
        (["run", "small.toml", "--gpus", "1"], "--gpus is for --engine ray"),
        (["run", "small.toml", "--engine", "slurm"], "--engine slurm: unknown"),
        (["run", "small.toml", "--engine", "ray", "-j", "2"], "--jobs is for local processes"),
        (["run", "small.toml", "--folder", "small.toml"], "is not the folder of a study"),
    ],
)
def test_wrong_usage(study: Run, arguments: list[str], message: str) -> None:
    write()
    outcome = study(*arguments)
    assert outcome.code == 2
    assert message in outcome.message
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


@pytest.mark.parametrize(("name", "reason"), [("x" * 300, "File name too long"), ("none.toml", "No such file")])
def test_study_files_that_cannot_be_read(study: Run, name: str, reason: str) -> None:
    outcome = study("run", name)
    assert outcome.code == 3
    assert f"{name} cannot be read: {reason}" in outcome.message


def test_names_from_a_study_are_data(study: Run) -> None:
    title = "<b>\x1b[31m::error::=1+1"
    study("run", write(title=title, compressions=[10], seeds=1))
    shown = study("status", "small").out
    assert "\x1b" not in shown
    assert json.loads(study("export", "small", "--format", "json").out)["title"] == title


def test_bad_study_files_write_nothing(study: Run) -> None:
    Path("small.toml").write_text('model = "lenet"\n')
    outcome = study("run", "small.toml")
    assert outcome.code == 2
    assert "small.toml, model lenet: unknown; did you mean lenet-5?" in outcome.message
    assert not Path("small").exists()


def test_importing_the_commands_needs_no_ray(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['ray'] = None; from effsparse_cli.cli import run; print(run(['study', 'run', '-h']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("0\n")
