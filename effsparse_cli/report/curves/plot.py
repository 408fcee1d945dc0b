"""Plot effective against direct compression, as in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.figure import MARKERS, build_figure, save_figure

if TYPE_CHECKING:
    from effsparse_cli.report.curves.page import CurvePage, Line


def plot_curves(page: CurvePage, path: Path) -> None:
    """Draw each line on log axes: the mean over seeds with a band from minimum to maximum, and a cross at the last
    connected network of each seed. On the diagonal, every kept connection is active."""
    page = escaped(page, printable)
    figure, axes = build_figure()
    furthest = max([page.connections / kept for line in page.lines for kept, _ in line.last])
    axes.plot([1, furthest], [1, furthest], color="0.6", linewidth=1, linestyle="--", label="all kept are active")
    for i, line in enumerate(page.lines):
        _draw(axes, line, page.connections, i)
    axes.plot([], [], "x", color="0.3", label="last connected network")
    axes.set(xscale="log", yscale="log", xlabel="direct compression", ylabel="effective compression")
    axes.set_title(Path(page.model).name, loc="left", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    save_figure(figure, path)


def _draw(axes: Any, line: Line, connections: int, number: int) -> None:
    colour, marker = f"C{number}", MARKERS[number % len(MARKERS)]
    connected = [point for point in line.points if min(point.active) > 0]
    direct = [connections / point.kept for point in connected]
    mean = [connections / point.mean for point in connected]
    axes.plot(direct, mean, color=colour, marker=marker, markersize=3.5, linewidth=1.5, label=line.name)
    if len(line.seeds) > 1:
        least = [connections / max(point.active) for point in connected]
        most = [connections / min(point.active) for point in connected]
        axes.fill_between(direct, least, most, color=colour, alpha=0.2, linewidth=0)
    for kept, active in line.last:
        axes.plot([connections / kept], [connections / active], "x", color=colour, markersize=7)
