"""Baselines round-trip, name models relative to their own folder, and reject other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from effsparse_cli.analysis.results import Analysis, Counts, LayerResult, Layers
from effsparse_cli.checks.baseline import baseline_key, baseline_text, read_baseline
from effsparse_cli.errors import UsageError


def test_round_trip(tmp_path: Path) -> None:
    layers = Layers(LayerResult(n, "linear", (10, 10), Counts(100, 10, 5, no_input=5), 10, 0) for n in ("fc1", "fc2"))
    file = tmp_path / "baseline.json"
    file.write_text(baseline_text([(str(tmp_path / "models" / "m.onnx"), Analysis(layers))], file))
    entry = read_baseline(file)["models/m.onnx"]
    assert (entry.totals.connections, entry.totals.kept, entry.totals.active) == (200, 20, 10)
    assert entry.totals.inactive == 10
    assert list(entry.layers) == ["fc1", "fc2"]


def test_links_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "blob").touch()
    (tmp_path / "model.onnx").symlink_to(tmp_path / "blob")
    assert baseline_key(str(tmp_path / "model.onnx"), tmp_path / "baseline.json") == "model.onnx"


COUNTS = {"connections": 10, "kept": 5, "active": 5, "layers": {}}


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        json.dumps({"models": {}}),
        json.dumps({"schema_version": 2, "models": {}}),
        json.dumps({"schema_version": 1, "models": {"m": {}}}),
        json.dumps({"schema_version": 1, "models": {"m": COUNTS | {"active": 6}}}),
        json.dumps({"schema_version": 1, "models": {"m": COUNTS | {"kept": "five"}}}),
    ],
)
def test_other_files_are_rejected(tmp_path: Path, document: str) -> None:
    (tmp_path / "baseline.json").write_text(document)
    with pytest.raises(UsageError, match="was not written by effsparse"):
        read_baseline(tmp_path / "baseline.json")
