"""Commands open, detect, parse or trace, and lower the model that they read once. Outputs are read back once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.compaction.torch import execute as compaction_torch
from effsparse_cli.folding.onnx import model as folding_onnx
from effsparse_cli.folding.torch import model as folding_torch
from effsparse_cli.formats import model_file
from effsparse_cli.formats import torch as formats_torch
from effsparse_cli.formats.onnx import model_file as onnx_file
from effsparse_cli.formats.torch.files import checkpoints, exported, pickled
from tests.commands.conftest import Run
from tests.commands.test_kills import LENET, SHAPE, module, program, tensors, whole_onnx

WORK: list[tuple[str, Any, str]] = [
    ("sniff", model_file, "sniff"),
    ("open", onnx_file, "open_model"),
    ("open", pickled, "open_pickled"),
    ("open", exported, "read_archive"),
    ("open", checkpoints, "read_safetensors"),
    ("trace", formats_torch, "trace_module"),
    ("lower", onnx_file, "build"),
    ("lower", folding_onnx, "build"),
    ("lower", formats_torch, "lower_traced"),
    ("lower", exported, "lower_traced"),
    ("lower", folding_torch, "lower_traced"),
    ("lower", compaction_torch, "lower_traced"),
]
"""The functions that do the work, in the modules that call them."""

TARGET = ["--target", "0.99", "--lsq", "uniform"]
CASES: dict[str, tuple[Callable[[Path], Path], str, list[str], str]] = {
    "prune model.onnx": (whole_onnx, "prune", TARGET, "out.onnx"),
    "prune model.pt": (module, "prune", [*SHAPE, *TARGET], "out.pt"),
    "prune model.pt2": (program, "prune", TARGET, "out.pt2"),
    "prune m.safetensors": (tensors, "prune", [*LENET, *TARGET], "out.safetensors"),
    "annotate model.onnx": (whole_onnx, "annotate", [], "out.onnx"),
    "repair model.onnx": (whole_onnx, "repair", [], "out.onnx"),
    "repair model.pt": (module, "repair", SHAPE, "out.pt"),
    "repair model.pt2": (program, "repair", [], "out.pt2"),
    "repair m.safetensors": (tensors, "repair", LENET, "out.safetensors"),
    "compact model.onnx": (whole_onnx, "compact", [], "out.onnx"),
    "compact model.pt": (module, "compact", SHAPE, "out.pt"),
    "compact model.pt to ONNX": (module, "compact", SHAPE, "out.onnx"),
    "compact model.pt2": (program, "compact", [], "out.onnx"),
}
ONCE = {"sniff", "open", "trace", "lower"}


def record(monkeypatch: pytest.MonkeyPatch, source: Path) -> dict[str, Counter[str]]:
    """Count the work by what it is done for: the model that is read, a changed or converted one, the written file."""
    counts: dict[str, Counter[str]] = {stage: Counter() for stage in ("original", "changed", "converted", "written")}
    stage = ["original"]

    def counted(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            paths = [arg for arg in args if isinstance(arg, Path)]
            if kind in ("sniff", "open") and paths != [source]:
                stage[0] = "written"
            converted = kind == "lower" and paths == [compaction_torch.NOWHERE]
            counts["converted" if converted else stage[0]][kind] += 1
            return function(*args, **kwargs)

        return call

    def changing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            stage[0] = "changed"
            return function(*args, **kwargs)

        return call

    for kind, place, name in WORK:
        monkeypatch.setattr(place, name, counted(kind, getattr(place, name)))
    for model in (folding_onnx.OnnxModel, folding_torch.TorchModel):
        monkeypatch.setattr(model, "apply", changing(model.apply))
    return counts


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_read_once(name: str, effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, command, options, target = CASES[name]
    source = make(tmp_path)
    counts = record(monkeypatch, source)
    outcome = effsparse(command, source, *options, "-o", tmp_path / target)
    assert outcome.code == 0, outcome.err
    print(f"{name}: " + "; ".join(f"{stage} {dict(found)}" for stage, found in counts.items() if found))
    assert all(counts["original"][kind] <= 1 for kind in ONCE)
    assert {"sniff", "open"} <= counts["original"].keys()
    assert all(counts["written"][kind] <= 1 for kind in ONCE)
    assert not {"sniff", "open"} & counts["changed"].keys()
