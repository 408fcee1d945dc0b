"""Figures of studies: how results become lines, and that every kind is drawn from hostile names too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.report.figure import build_figure, colour_of, marker_of
from effsparse_cli.report.studies.figures import EFFECTIVE, FIGURES, build_curve, choose_seeds
from effsparse_cli.report.studies.labels import group_records
from effsparse_cli.report.studies.record import TaskRecord, flatten
from effsparse_cli.report.studies.report import StudyReport


def record(method: str = "snip", lsq: str = "", compression: float = 10, seed: int = 0, **more: Any) -> TaskRecord:
    counts = {"direct_compression": compression, "effective_compression": more.pop("reached", 2 * compression)}
    layers = [{"name": "fc1", "connections": 90, "kept": 9}, {"name": "fc2", "connections": 10, "kept": 0}]
    result = {"accuracy": 1 / compression, "pruned": counts, "final": counts, "layers": layers}
    return TaskRecord(
        name=f"{method}-{seed}",
        state=more.pop("state", "finished"),
        model="lenet-5",
        method=method,
        lsq=lsq,
        compression=compression,
        effective=more.pop("effective", False),
        when=more.pop("when", "init"),
        seed=seed,
        **{"result": result, **more},
    )


RECORDS = [
    record(method, lsq, compression, seed)
    for method, lsq in (("snip", ""), ("random", "igq"), ("random", "from:snip"), ("dense", ""))
    for compression in (10.0, 100.0)
    for seed in (0, 1)
]


def test_seeds_of_one_target_are_one_point() -> None:
    curve = build_curve([("a", 10, 0.5), ("a", 20, 0.7), ("b", 5, 0.9), ("c", None, 0.1), ("d", 1, None)])
    assert curve.x == (5, 15)
    assert curve.low == (0.9, 0.5)
    assert list(curve.mean) == pytest.approx([0.9, 0.6])
    assert curve.high == (0.9, 0.7)
    assert curve.partial == (False, False)
    assert build_curve([]).x == ()
    assert build_curve([("a", 10, 0.5), ("a", None, 0.1), ("b", 20, 0.3)]).partial == (True, False)


def test_failed_seeds_are_left_out_of_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[TaskRecord] = []

    def draw(records: Any) -> Any:
        drawn.extend(records)
        return build_figure()[0]

    monkeypatch.setitem(FIGURES, "accuracy", draw)
    kept = [record("snip", seed=0), record("snip", seed=1, state="failed", result=None)]
    others = [record("cs", seed=0, state="failed", result=None), record("rigl", seed=0, state="pending", result=None)]
    StudyReport("", "folder", [*kept, *others]).plot(tmp_path / "plot.svg", "accuracy")
    assert drawn == kept
    points = [(each.compression, each.number("final", EFFECTIVE), each.number("accuracy")) for each in kept]
    assert build_curve(points).partial == (True,)


def test_seeds_that_disconnect_last() -> None:
    records = [
        record(compression=compression, seed=seed, reached=None if compression > last else compression)
        for seed, last in enumerate((10, 1000, 100, 1000, 10))
        for compression in (10.0, 100.0, 1000.0)
    ]
    assert {each.seed for each in choose_seeds(records, 3)} == {1, 2, 3}
    assert len(choose_seeds(records, 5)) == len(records)


def test_experiments_that_differ_have_different_labels() -> None:
    records = [
        *(record("rigl", options=options, seed=seed) for options in ({}, {"every": 20}) for seed in (0, 1)),
        *(record("magnitude", "igq", when=when) for when in ("init", "trained")),
        *(record("snip", effective=effective, options={"samples": 5}) for effective in (False, True)),
    ]
    groups = group_records(records)
    assert {label: len(found) for label, found in groups.items()} == {
        "rigl": 2,
        "rigl every=20": 2,
        "magnitude igq init": 1,
        "magnitude igq trained": 1,
        "snip direct target": 1,
        "snip effective target": 1,
    }
    assert list(group_records(records, by_target=False))[-1] == "snip"
    (axes,) = FIGURES["accuracy"](records).axes
    assert {line.get_label() for line in axes.get_lines()} >= set(groups)
    assert [row[0] for row in StudyReport("", "folder", records).table().rows] == list(groups)
    assert [flatten(each).get("option_every") for each in records[:4]] == [None, None, 20, 20]


@pytest.mark.parametrize("kind", ["", *FIGURES])
def test_every_kind_is_drawn(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    StudyReport("<b>$x$\x1b", "folder", RECORDS).plot(path, kind)
    text = path.read_text(encoding="utf-8")
    assert "\\x1b" in text
    assert "\x1b" not in text


def test_points_without_some_seeds_are_hollow() -> None:
    records = [record(compression=10.0), record(compression=99.0), record(compression=99.0, seed=1, reached=None)]
    (axes,) = FIGURES["compression"](records).axes
    (hollow,) = axes.collections
    assert hollow.get_offsets().tolist() == [[99, 198]]
    assert hollow.get_facecolor().tolist() == [[1, 1, 1, 1]]


def test_masks_that_change_in_training_are_drawn_as_they_end() -> None:
    counts = {"direct_compression": 10.0, "effective_compression": 15.0}
    records = [record("rigl", compression=10.0, result={**(record().result or {}), "final": counts})]
    for kind in ("compression", "targets"):
        (axes,) = FIGURES[kind](records).axes
        assert list(axes.get_lines()[0].get_ydata()) == [15], kind


def test_colour_and_marker_tell_many_lines_apart() -> None:
    assert len({(colour_of(i), marker_of(i)) for i in range(64)}) == 64


def test_lines_are_what_the_records_say() -> None:
    (axes,) = FIGURES["accuracy"](RECORDS).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines["snip"].get_xdata()) == [20, 200]
    assert list(lines["snip"].get_ydata()) == pytest.approx([0.1, 0.01])
    assert lines["snip"].get_linestyle() == "-"
    dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert [list(line.get_xdata()) for line in dashed] == [[10, 100]] * 3
    (axes,) = FIGURES["original"](RECORDS).axes
    styles = {line.get_label(): line.get_linestyle() for line in axes.get_lines()}
    assert styles == {"dense": ":", "snip": "-", "random, quotas of snip": "-."}


def test_original_methods_with_other_quotas_or_options_are_other_lines() -> None:
    more = [record("snip", "igq"), record("snip", options={"samples": 5}), record("random", "igq")]
    (axes,) = FIGURES["original"]([*RECORDS, *more]).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert {*lines} == {"dense", "snip", "snip samples=5", "snip igq", "random, quotas of snip"}
    assert list(lines["snip"].get_xdata()) == [20, 200]
    assert lines["random, quotas of snip"].get_color() == lines["snip"].get_color()


def test_methods_that_are_always_disconnected_are_named() -> None:
    cut = record("random", "uniform", reached=None)
    (axes,) = FIGURES["accuracy"]([record("snip"), cut]).axes
    assert {*axes.get_legend_handles_labels()[1]} == {"snip", "random uniform"}


def test_many_panels_are_drawn_in_rows() -> None:
    axes = FIGURES["layers"]([record("random", f"quota {i}") for i in range(6)]).axes
    assert len(axes) == 6
    assert len({each.get_position().y0 for each in axes}) == 2


def test_a_layer_without_connections_ends_its_line() -> None:
    axes = FIGURES["layers"](RECORDS).axes
    assert len(axes) == 3
    assert axes[0].get_lines()[0].get_label() == "fc1 (90 %)"
    assert list(axes[0].get_lines()[0].get_ydata()) == [10, 10]


@pytest.mark.parametrize(
    ("records", "kind", "message"),
    [
        ([], "", "has no finished task to plot"),
        (RECORDS, "pie", "kind pie: unknown"),
        ([record("dense")], "compression", "only dense networks"),
        *(([record("snip", reached=None)], kind, "are disconnected") for kind in ("compression", "quotas", "targets")),
        ([record("snip", state="failed", result=None)], "", "study retry runs them again"),
        ([record("snip")], "original", "the kind original needs a method"),
        ([record(result={"accuracy": None})], "accuracy", "no finished task has an accuracy"),
        ([record(result={"accuracy": 1})], "layers", "no finished task has layers"),
    ],
)
def test_what_cannot_be_drawn_is_said(records: list[TaskRecord], kind: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        StudyReport("", "folder", records).plot(tmp_path / "plot.svg", kind)
    assert not list(tmp_path.iterdir())


def test_results_are_flattened() -> None:
    flat = flatten(record())
    assert (flat["method"], flat["accuracy"], flat["final_direct_compression"]) == ("snip", 0.1, 10)
    assert "layers" not in flat
    assert len(StudyReport("", "folder", RECORDS).to_frame()) == len(RECORDS)
