"""`methods`, `archs` and `man` list what there is; shells complete it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from effsparse_cli.checks.rules import RULES
from effsparse_cli.commands import COMMANDS, GROUPS
from effsparse_cli.formats.architectures import ARCHITECTURES
from effsparse_cli.pruning import QUOTAS, SCORES
from tests.commands.conftest import Run


def test_methods(effsparse: Run) -> None:
    listed = json.loads(effsparse("methods", "--format", "json").out)["methods"]
    scores = {x["name"]: (x["data"], x["rounds"], x["paper"]) for x in listed if x["option"] == "--method"}
    assert scores == {name: (score.needs_data, score.rounds, score.paper) for name, score in SCORES.items()}
    assert {x["name"] for x in listed if x["option"] == "--lsq"} == {*QUOTAS, "global", "from:METHOD"}
    text = effsparse("methods").out
    assert all(f"\n{name} " in text for name in (*SCORES, *QUOTAS))
    assert "Tanaka et al., 2020" in " ".join(text.split())


def test_archs(effsparse: Run) -> None:
    listed = json.loads(effsparse("archs", "--format", "json").out)["architectures"]
    assert [(x["name"], tuple(x["input_shape"]), x["weights"]) for x in listed] == [
        (name, arch.shape, arch.weights) for name, arch in ARCHITECTURES.items()
    ]
    assert "lenet-5        1x3x32x32    61,770      LeNet-5 for CIFAR-10\n" in effsparse("archs").out


@pytest.mark.parametrize("command", ["methods", "archs"])
@pytest.mark.parametrize("width", [80, 120])
def test_lists_fit(effsparse: Run, monkeypatch: pytest.MonkeyPatch, command: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert max(map(len, effsparse(command).out.splitlines())) <= width


def test_the_manual_has_every_command_and_option(effsparse: Run) -> None:
    page = effsparse("man").out
    ordered = [" ".join([x, *inner]) for x in COMMANDS for inner in ([[y] for y in GROUPS[x]] if x in GROUPS else [[]])]
    assert page.startswith('.TH EFFSPARSE 1 "" "effsparse ')
    assert [line for line in page.splitlines() if line.startswith(".SS")] == [f'.SS "effsparse {x}"' for x in ordered]
    for part in ("\\fB\\-\\-input\\-shape\\fR \\fI1,3,32,32\\fR", "\\fB\\-\\-trust\\fR", '.SH "EXIT STATUS"'):
        assert part in page
    assert not [line for line in page.splitlines() if line.startswith("'")]


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_manual_is_valid_roff(effsparse: Run) -> None:
    command = ["groff", "-man", "-ww", "-Tutf8"]
    done = subprocess.run(command, input=effsparse("man").out, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "effsparse prune model.pt --target 0.99 -o pruned.pt" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("prune --lsq er", ["erk"]),
        ("prune --lsq from:snip", ["from:snip", "from:snip-iterative"]),
        ("curve --lsq erk,ig", ["erk,igq"]),
        ("curve --method magnitude,syn", ["magnitude,synflow"]),
        ("prune --method fo", ["force"]),
        ("report --arch vgg", ["vgg16-cifar", "vgg19-cifar"]),
        ("report --columns kept,mul", ["kept,multiply-adds"]),
        ("check --explain EFF00", [code for code in RULES if code.startswith("EFF00")]),
        ("arch", ["archs"]),
        ("study re", ["retry"]),
        ("study plot --kind acc", ["accuracy"]),
    ],
)
def test_completion(words: str, expected: list[str]) -> None:
    line = f"effsparse {words}"
    count = str(len(line.split()) - 1)
    completion = {"_EFFSPARSE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": count}
    command = [sys.executable, "-m", "effsparse_cli"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | completion)
    assert done.stdout.split() == expected
