"""The figures of the paper from the results of any study. A kind of figure is one function and one row of FIGURES."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effsparse_cli.arguments import choose
from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import FROM
from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.figure import (
    MOST_IN_A_ROW,
    build_figure,
    build_panels,
    check_plot,
    colour_of,
    marker_of,
    save_figure,
    viridis,
)
from effsparse_cli.report.studies.labels import group_records
from effsparse_cli.report.studies.record import TaskRecord
from effsparse_cli.report.studies.report import StudyReport
from effsparse_cli.study.task_folder import FAILED, FINISHED

DENSE = "dense"
DIRECT, EFFECTIVE = "direct_compression", "effective_compression"
Point = tuple[Hashable, float | None, float | None]
"""The target, equal for all seeds, and where a network is in the figure."""


def draw(report: StudyReport, path: Path, kind: str = "", seeds: int = 0) -> None:
    """Draw one kind of figure; by default, the first that the results allow."""
    check_plot(path, "the file")
    page = escaped(report, printable)
    records = _select(page.tasks)
    if not records:
        failed = any(record.state == FAILED for record in page.tasks)
        raise UsageError(
            f"{report.folder} has no finished task to plot. effsparse study {'retry' if failed else 'run'} runs them"
            f"{' again' if failed else ''}."
        )
    name = choose(kind, FIGURES, "kind") if kind else "accuracy" if _accuracies(records) else "compression"
    figure = FIGURES[name](choose_seeds(records, seeds) if seeds else records)
    figure.axes[0].set_title(page.title or Path(page.folder).name, loc="left", fontsize="medium")
    save_figure(figure, path)


def _select(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    """Return what to plot: tasks that have ended, of methods with at least one result."""
    ended = [record for record in records if record.state in (FINISHED, FAILED)]
    groups = group_records(ended).values()
    return [record for found in groups if any(each.result for each in found) for record in found]


def choose_seeds(records: Sequence[TaskRecord], number: int) -> list[TaskRecord]:
    """Return the results of a number of seeds per method: those that stay connected up to the highest compression."""
    chosen = []
    for found in group_records(records).values():
        last: dict[int, float] = {}
        for record in found:
            connected = record.number("final", EFFECTIVE) is not None
            last[record.seed] = max(last.get(record.seed, 0.0), record.compression if connected else 0.0)
        best = sorted(last, key=lambda seed: (-last[seed], seed))[:number]
        chosen += [record for record in found if record.seed in best]
    return chosen


@dataclass(frozen=True)
class Curve:
    """Points of one line: seeds of the same compression together, as minimum, mean and maximum. `partial` where some
    seeds are left out, because their networks are disconnected or their tasks failed."""

    x: tuple[float, ...]
    low: tuple[float, ...]
    mean: tuple[float, ...]
    high: tuple[float, ...]
    partial: tuple[bool, ...]


def build_curve(points: Sequence[Point]) -> Curve:
    """Group (target, x, y) by target. Points without x or y, such as those of disconnected networks, are left out."""
    groups: dict[Hashable, list[tuple[float, float]]] = {}
    for target, x, y in points:
        groups.setdefault(target, []).extend([(x, y)] if x is not None and y is not None else [])
    seeds = Counter(target for target, _, _ in points)
    rows = []
    for target, found in groups.items():
        values = [y for _, y in found]
        if found:
            mean_x, mean_y = (sum(each) / len(found) for each in zip(*found, strict=True))
            rows.append((mean_x, min(values), mean_y, max(values), len(found) < seeds[target]))
    columns: list[tuple[Any, ...]] = [*zip(*sorted(rows), strict=True)] or [()] * 5
    return Curve(*columns)


def draw_compression(records: Sequence[TaskRecord]) -> Any:
    """Effective against direct compression, a line per method (Figure 2 left, Figure 3)."""
    figure, axes = build_figure()
    labels = _labels(records)
    for i, (label, each) in enumerate(labels.items()):
        _plot(axes, build_curve([_point(r, DIRECT, ("final", EFFECTIVE)) for r in each]), i, label)
    _diagonal(axes)
    axes.set(xscale="log", yscale="log", xlabel="direct compression", ylabel="effective compression")
    _legend(axes)
    return figure


def draw_accuracy(records: Sequence[TaskRecord]) -> Any:
    """Accuracy against direct (dashed) and effective (solid) compression (Figure 2 right, Figure 4)."""
    figure, axes = _accuracy_axes(records, "compression: direct (dashed), effective (solid)")
    for i, (label, each) in enumerate(_labels(records, connected=False).items()):
        direct, effective = (build_curve([_point(r, key, ("accuracy",)) for r in each]) for key in (DIRECT, EFFECTIVE))
        _plot(axes, direct, i, "" if effective.x else label, style="--", band=False)
        _plot(axes, effective, i, label)
        dots = [(r.number("final", EFFECTIVE), r.number("accuracy")) for r in each]
        found = [(x, y) for x, y in dots if x is not None and y is not None]
        axes.scatter([x for x, _ in found], [y for _, y in found], s=5, color=colour_of(i), alpha=0.35, linewidths=0)
    return _finish(figure, axes)


def draw_original(records: Sequence[TaskRecord]) -> Any:
    """Methods (solid) and random pruning with their quotas (dash-dotted) against effective compression (Figure 5)."""
    labels = _labels(records)
    filled = {label: name for label, found in labels.items() if (name := _source_of_quotas(found[0]))}
    originals = {label: found[0].method for label, found in labels.items() if found[0].method in filled.values()}
    if not originals:
        raise UsageError('the kind original needs a method, and random with lsq = "from:METHOD" for the same method.')
    figure, axes = _accuracy_axes(records, "effective compression")
    colours: dict[str, int] = {}
    for i, (label, name) in enumerate(originals.items()):
        colours.setdefault(name, i)
        _plot(axes, _accuracy_curve(labels[label]), i, label)
    for label, name in filled.items():
        if name in colours:
            title = label.replace(f" {FROM}{name}", f", quotas of {name}")
            _plot(axes, _accuracy_curve(labels[label]), colours[name], title, style="-.")
    return _finish(figure, axes)


def draw_quotas(records: Sequence[TaskRecord]) -> Any:
    """Accuracy against effective compression, a line per quota; other methods in black (Figures 8 and 9)."""
    labels = _labels(records)
    figure, axes = _accuracy_axes(records, "effective compression")
    colours, others = 0, 0
    for label, each in labels.items():
        curve = _accuracy_curve(each)
        if each[0].lsq:
            _plot(axes, curve, colours, label)
            colours += 1
        else:
            style = ("-", "--", "-.", ":")[others % 4]
            _plot(axes, curve, others, label, style=style, colour="black")
            others += 1
    return _finish(figure, axes)


def draw_layers(records: Sequence[TaskRecord]) -> Any:
    """Direct compression of every layer against that of the network, a panel per method (Figure 7)."""
    labels = {label: each for label, each in _labels(records, connected=False).items() if any(_layers(r) for r in each)}
    if not labels:
        raise UsageError("no finished task has layers.")
    figure, panels = build_panels(len(labels))
    for axes, (label, each) in zip(panels, labels.items(), strict=True):
        sizes = {layer["name"]: layer["connections"] for r in each for layer in _layers(r)}
        order = {name: i for i, name in enumerate(sorted(sizes, key=lambda name: sizes[name]))}
        for name, size in sizes.items():
            points = [_layer_point(r, name) for r in each]
            shade = viridis(0.9 * order[name] / max(1, len(order) - 1))
            title = f"{name} ({100 * size / sum(sizes.values()):.2g} %)"
            _plot(axes, build_curve(points), order[name], title, colour=shade, band=False)
        axes.set(xscale="log", yscale="log", xlabel=f"direct compression, {label}")
        _diagonal(axes)
        _legend(axes, "x-small")
    for axes in panels[::MOST_IN_A_ROW]:
        axes.set_ylabel("direct compression of the layer")
    return figure


def draw_targets(records: Sequence[TaskRecord]) -> Any:
    """Effective compression against its target: regular (dash-dotted) and effective pruning (solid; Figure 10)."""
    figure, axes = build_figure()
    for i, (label, each) in enumerate(_labels(records, by_target=False).items()):
        for effective, style in ((False, "-."), (True, "-")):
            points = [
                (r.compression, r.compression, r.number("final", EFFECTIVE)) for r in each if r.effective == effective
            ]
            if points:
                _plot(axes, build_curve(points), i, f"{label}{'' if effective else ', regular'}", style=style)
    _diagonal(axes)
    axes.set(xscale="log", yscale="log", xlabel="target compression", ylabel="effective compression")
    _legend(axes)
    return figure


FIGURES: dict[str, Callable[[Sequence[TaskRecord]], Any]] = {
    "compression": draw_compression,
    "accuracy": draw_accuracy,
    "original": draw_original,
    "quotas": draw_quotas,
    "layers": draw_layers,
    "targets": draw_targets,
}


def _labels(
    records: Sequence[TaskRecord], *, by_target: bool = True, connected: bool = True
) -> dict[str, list[TaskRecord]]:
    """Return the pruned networks by label. If `connected`, at least one of them must be."""
    pruned = [record for record in records if record.method != DENSE]
    if not pruned:
        raise UsageError("there are only dense networks to plot.")
    if connected and all(record.number("final", EFFECTIVE) is None for record in pruned):
        raise UsageError("all networks are disconnected, so they have no effective compression to plot.")
    return group_records(pruned, by_target=by_target)


def _accuracies(records: Sequence[TaskRecord]) -> list[float]:
    return [found for record in records if (found := record.number("accuracy")) is not None]


def _point(record: TaskRecord, key: str, y: tuple[str, ...]) -> Point:
    return (record.compression, record.effective), record.number("final", key), record.number(*y)


def _accuracy_curve(records: Sequence[TaskRecord]) -> Curve:
    return build_curve([_point(record, EFFECTIVE, ("accuracy",)) for record in records])


def _source_of_quotas(record: TaskRecord) -> str:
    """Return the method that the quotas of random pruning come from."""
    return record.lsq.removeprefix(FROM) if record.method == "random" and record.lsq.startswith(FROM) else ""


def _layers(record: TaskRecord) -> Sequence[Any]:
    layers: Sequence[Any] = (record.result or {}).get("layers") or ()
    return layers


def _layer_point(record: TaskRecord, name: str) -> Point:
    layer = next((each for each in _layers(record) if each["name"] == name), None)
    ratio = layer["connections"] / layer["kept"] if layer and layer["kept"] else None
    return (record.compression, record.effective), record.number("final", DIRECT), ratio


def _accuracy_axes(records: Sequence[TaskRecord], xlabel: str) -> tuple[Any, Any]:
    if not _accuracies(records):
        raise UsageError("no finished task has an accuracy: plot compression, layers or targets.")
    figure, axes = build_figure()
    axes.set(xscale="log", xlabel=xlabel, ylabel="test accuracy")
    dense = _accuracies([record for record in records if record.method == DENSE])
    if dense:
        axes.axhline(sum(dense) / len(dense), color="0.6", linewidth=1, linestyle=":", label="dense")
    return figure, axes


def _finish(figure: Any, axes: Any) -> Any:
    _legend(axes)
    return figure


def _legend(axes: Any, size: str = "small") -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=size, handlelength=3.5)  # long enough for every line style


def _diagonal(axes: Any) -> None:
    """Draw where both axes are equal, up to the end of the horizontal one."""
    ends = [x for line in axes.get_lines() for x in line.get_xdata()] or [1]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="0.6", linewidth=1, linestyle="--", zorder=0)


def _plot(
    axes: Any, curve: Curve, number: int, label: str, *, style: str = "-", colour: Any = None, band: bool = True
) -> None:
    """Draw the means with markers, hollow where they are `partial`, and a band from minimum to maximum."""
    if not curve.x:
        return
    colour = colour_of(number) if colour is None else colour
    marker = marker_of(number)
    axes.plot(
        curve.x,
        curve.mean,
        color=colour,
        marker=marker,
        markersize=3.5,
        linewidth=1.5,
        linestyle=style,
        label=label or "_",
    )
    hollow = [(x, y) for x, y, partial in zip(curve.x, curve.mean, curve.partial, strict=True) if partial]
    if hollow:
        x, y = zip(*hollow, strict=True)
        axes.scatter(x, y, s=16, marker=marker, facecolors="white", edgecolors=[colour], linewidths=1.2, zorder=3)
    if band and curve.low != curve.high:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
