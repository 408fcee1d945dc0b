"""One model whose file and layers have names that attack terminals, spreadsheets, CI servers and web pages: every
format of every command shows them as text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from markdown_it import MarkdownIt
from safetensors.numpy import save_file
from torch import nn

from effsparse_cli.report import analysis, findings
from effsparse_cli.report.annotation import Annotation
from effsparse_cli.report.changes import Change
from effsparse_cli.report.compaction import Compaction
from effsparse_cli.report.comparison import Difference
from effsparse_cli.report.curves import Curves
from effsparse_cli.report.direct import DirectReport
from effsparse_cli.report.quotas import Quotas
from tests.checks.models import chain, with_dead_ends, write_mlp
from tests.commands.conftest import Run

ATTACK = "=cmd|' /C calc'!A0\x1b[31m\n::error file=x::oops\r##[error]\u202e|`<img src=x>[l](http:e)\u2028@all\x9b\x00"
FILE_ATTACK = ATTACK.replace("/", "").replace("\x00", "")


def hostile_onnx(folder: Path, dead: int = 2) -> Path:
    weights = {f"{i}{ATTACK}" if i else ATTACK: w for i, w in enumerate(with_dead_ends(dead).values())}
    return write_mlp(folder / f"{FILE_ATTACK}{dead}.onnx", weights)


def hostile_module(folder: Path) -> Path:
    model = nn.Sequential()
    name = ATTACK.replace(".", "")
    model.add_module(name, nn.Linear(4, 4))
    model.add_module(f"{name}2", nn.Linear(4, 4))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[0] = 0
    torch.save(model, folder / f"{FILE_ATTACK}.pt")
    return folder / f"{FILE_ATTACK}.pt"


def hostile_tensors(folder: Path) -> Path:
    torch.save({f"{ATTACK}.weight": torch.eye(4)}, folder / f"{FILE_ATTACK}.pt")
    return folder / f"{FILE_ATTACK}.pt"


Make = Callable[[Path], Path]
CASES: list[tuple[str, Make, list[str]]] = [
    *((form, hostile_onnx, ["report"]) for form in analysis.FORMATS),
    *((form, hostile_module, ["report"]) for form in analysis.FORMATS),
    *((form, hostile_tensors, ["report", "--direct-only"]) for form in DirectReport.FORMATS),
    *((form, hostile_onnx, ["check", "--max-gap", "0", "--min-effective", "0.99"]) for form in findings.FORMATS),
    *((form, hostile_tensors, ["check"]) for form in findings.FORMATS),
    *((form, hostile_onnx, ["diff"]) for form in Difference.FORMATS),
    *((form, hostile_onnx, ["quotas", "--target", "0.5"]) for form in Quotas.FORMATS),
    *((form, hostile_onnx, ["curve", "--points", "2"]) for form in Curves.FORMATS),
    *((form, hostile_onnx, ["prune", "--target", "0.9"]) for form in Change.FORMATS),
    *((form, hostile_onnx, ["repair"]) for form in Change.FORMATS),
    *((form, hostile_onnx, ["compact"]) for form in Compaction.FORMATS),
    *((form, hostile_onnx, ["annotate", "-o", "out.onnx"]) for form in Annotation.FORMATS),
]


@pytest.mark.parametrize(("form", "make", "command"), CASES, ids=[f"{c[2][0]} {c[0]} {c[1].__name__}" for c in CASES])
def test_names_are_text(
    effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, make: Make, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    models = [make(tmp_path).name]
    if command == ["diff"]:
        models.append(hostile_onnx(tmp_path, 1).name)
    outcome = effsparse(*command, "--format", form, "--", *models)
    assert outcome.code in (0, 1, 3) or (form, make) == ("model-explorer", hostile_module), outcome.err
    assert_harmless(outcome.err)
    assert_harmless(outcome.out, commands=form == "github")
    match form:
        case "json" | "sarif" | "gitlab":
            json.loads(outcome.out)
        case "badge":
            ElementTree.fromstring(outcome.out)
        case "csv":
            for row in csv.reader(io.StringIO(outcome.out)):
                assert not any(cell.startswith(("=", "+", "@", "-")) for cell in row)
        case "junit":
            ElementTree.fromstring(outcome.out)
        case "markdown":
            tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(outcome.out)
            kinds = {child.type for token in tokens for child in token.children or []} | {t.type for t in tokens}
            assert not kinds & {"html_inline", "html_block", "link_open", "image", "heading_open"}
            assert not re.search(r"(?<![`\w])@all", outcome.out)


def assert_harmless(text: str, commands: bool = False) -> None:
    for line in text.split("\n"):
        assert line.isprintable()
        assert "##[" not in line
        if line.lstrip().startswith("::"):
            assert commands
            assert re.fullmatch(r"::(error|warning|notice) file=[^:,]*,title=[^:,]*::.*", line)


def hostile_masks(folder: Path) -> list[str]:
    write_mlp(folder / "m.onnx", chain())
    save_file({ATTACK: np.ones((4, 4), bool)}, folder / f"{FILE_ATTACK}.safetensors")
    return ["report", "m.onnx", "--masks", f"{FILE_ATTACK}.safetensors"]


def hostile_project(folder: Path) -> list[str]:
    (folder / "effsparse.toml").write_text(f"{json.dumps(ATTACK.replace(chr(0), ''))} = 1\n", encoding="utf-8")
    return ["check", "m.onnx"]


def hostile_patterns(folder: Path) -> list[str]:
    write_mlp(folder / "m.onnx", chain())
    name = json.dumps(ATTACK.replace(chr(0), ""))
    (folder / "effsparse.toml").write_text(f"[models.{name}]\nclaim = 0.1\n", encoding="utf-8")
    return ["check", "m.onnx"]


def hostile_baseline(folder: Path) -> list[str]:
    write_mlp(folder / "m.onnx", chain())
    (folder / "base.json").write_text(json.dumps({"schema_version": ATTACK}))
    return ["check", "m.onnx", "--baseline", "base.json"]


def hostile_card(folder: Path) -> list[str]:
    write_mlp(folder / "m.onnx", chain())
    (folder / "config.json").write_text(json.dumps({"sparsity_config": {"targets": [f"re:{ATTACK}"]}}))
    (folder / "README.md").write_text("This is a 99\x1b[31m% sparse and a 98\u00a0% sparse\x1b model.\n")
    return ["check", "m.onnx"]


def missing(folder: Path) -> list[str]:
    return ["report", f"{FILE_ATTACK}.onnx"]


def no_layer(folder: Path) -> list[str]:
    return ["report", hostile_onnx(folder).name, "--layers", "nosuch"]


@pytest.mark.parametrize(
    "make",
    [hostile_masks, hostile_project, hostile_patterns, hostile_baseline, hostile_card, missing, no_layer],
)
def test_messages_are_text(
    effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    *command, name = make(tmp_path)
    outcome = effsparse(*command, name)
    assert outcome.code in (0, 2, 3)
    assert_harmless(outcome.err)
    assert_harmless(outcome.out)


def test_pictures(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = {f"$x^{{ {ATTACK}": np.eye(4, dtype=np.float32), "$y$": np.eye(4, dtype=np.float32)}
    write_mlp(tmp_path / "$m$.onnx", weights)
    for command in (["quotas", "$m$.onnx", "--target", "0.5"], ["curve", "$m$.onnx", "--points", "2"]):
        outcome = effsparse(*command, "--plot", "plot.svg")
        assert outcome.code == 0, outcome.err
        root = ElementTree.fromstring((tmp_path / "plot.svg").read_text())
        assert not [e for e in root.iter() if e.tag.partition("}")[2] in ("script", "image", "a")]
        assert_harmless((tmp_path / "plot.svg").read_text())


def test_a_name_that_is_no_unicode(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "m.onnx", with_dead_ends(1)).rename(tmp_path / "m\udcff.onnx")
    for form in findings.FORMATS:
        assert effsparse("check", "m\udcff.onnx", "--max-gap", "0", "-f", form, "-o", "out").code == 1
        (tmp_path / "out").read_text(encoding="utf-8")
    for form in analysis.FORMATS:
        assert effsparse("report", "m\udcff.onnx", "-f", form).code == 0
