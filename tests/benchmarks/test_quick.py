"""A smoke test of the benchmark: ratios within one process, so that only gross regressions fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import growth, page
from benchmarks.__main__ import main
from benchmarks.models import CASES
from benchmarks.pruning import edge, prune, subject
from benchmarks.ratios import Effort, measure
from benchmarks.results import read
from effsparse_cli.analysis.measure import analyze_graph


@pytest.mark.slow
def test_exact_count_is_about_as_fast_as_counting_zeros() -> None:
    """Take the best of all rounds, because a busy machine slows single ones down."""
    connected = list(measure(CASES["resnet18"], (0.9,), Effort(repeats=5, seconds=1.0, saturated=False)))
    for row in connected:
        assert not row.disconnected
        assert row.agrees
        assert row.autograd is not None
        assert row.autograd.high > 2
    assert connected[0].floor.low < 10


def test_results_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"json": tmp_path / "results.json", "page": tmp_path / "page.md"}
    options = [text for name, file in files.items() for text in (f"--{name}", str(file))]
    main(["--quick", "--models", "lenet", "--parts", "ratios", *options])
    shown = capsys.readouterr().out.strip()
    assert "| LeNet-300-100 | 0.9 | 25,024 |" in shown
    assert shown in files["page"].read_text(encoding="utf-8")
    again = read(json.loads(files["json"].read_text(encoding="utf-8")))
    assert page.write(again) == files["page"].read_text(encoding="utf-8")


def test_docs_page_describes_how_it_was_measured() -> None:
    text = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for part in (page.HEAD, page.RATIOS, page.GROWTH, page.DEEPER, page.WIDER, page.STARTUP, page.STEP):
        assert part in text


def test_edge_is_the_last_sparsity_with_a_path() -> None:
    thing = subject(CASES["lenet"].build(), CASES["lenet"].example)
    last = edge(thing)
    for sparsity, disconnected in ((last, False), (1 - (1 - last) * 0.9, True)):
        prune(list(thing.weights.values()), sparsity)
        assert analyze_graph(thing.graph).disconnected == disconnected


@pytest.mark.slow
def test_growth_is_measured_in_separate_processes() -> None:
    wider, deeper = growth.measure([10**6, 2 * 10**6], [growth.wider, growth.deeper], times=2)
    assert [(g.weights, g.layers) for g in wider] == [(991232, 8), (2097152, 8)]
    assert [(g.weights, g.layers) for g in deeper] == [(991232, 2), (1982464, 4)]
    for found in (*wider, *deeper):
        assert len(found.seconds) == 2
        assert found.extra > found.weights // 8


def test_results_of_another_version_are_rejected() -> None:
    with pytest.raises(SystemExit, match="another version"):
        read({"schema_version": 2})


def test_fit_power() -> None:
    assert growth.exponent([1, 10, 100], [2, 20, 200]) == pytest.approx(1)
    assert growth.exponent([1, 10, 100], [5, 500, 50000]) == pytest.approx(2)
