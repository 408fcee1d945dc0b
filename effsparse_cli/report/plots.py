"""The paper's two pictures: effective against direct compression, and the layerwise compression that quotas give.
Matplotlib is imported here and nowhere else."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli.errors import UsageError
from effsparse_cli.report.escape import escaped, plain

if TYPE_CHECKING:
    from effsparse_cli.report.curves import CurvePage, Line
    from effsparse_cli.report.quotas import QuotaPage

SUFFIXES = (".svg", ".png", ".pdf")
MARKERS = "osD^vP*X"


def check_plot(path: Path) -> None:
    """Before any work is done: a suffix that can be drawn, and something to draw with."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--plot {path}: pictures are {', '.join(SUFFIXES)} files, by suffix")
    _figure()


def _figure() -> tuple[Any, Any]:
    try:
        drawing = import_module("matplotlib.figure")
    except ImportError as error:
        raise UsageError("--plot needs matplotlib, which is not installed: pip install 'effsparse[plot]'") from error
    figure = drawing.Figure(figsize=(7.2, 4.8), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(True, which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def plot_curves(page: CurvePage, path: Path) -> None:
    """Both axes logarithmic; a band from the least to the most over seeds around their mean; a cross where a
    seed's network was last connected. On the diagonal every kept connection is active."""
    page = escaped(page, plain)
    figure, axes = _figure()
    furthest = max([page.connections / kept for line in page.lines for kept, _ in line.last])
    axes.plot([1, furthest], [1, furthest], color="0.6", linewidth=1, linestyle="--", label="all kept are active")
    for i, line in enumerate(page.lines):
        _draw(axes, line, page.connections, f"C{i}", MARKERS[i % len(MARKERS)])
    axes.plot([], [], "x", color="0.3", label="last connected network")
    axes.set(xscale="log", yscale="log", xlabel="direct compression", ylabel="effective compression")
    axes.set_title(Path(page.model).name, loc="left", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    _save(figure, path)


def _draw(axes: Any, line: Line, connections: int, colour: str, marker: str) -> None:
    whole = [place for place in line.places if min(place.active) > 0]
    direct = [connections / place.kept for place in whole]
    mean = [connections / place.mean for place in whole]
    axes.plot(direct, mean, color=colour, marker=marker, markersize=3.5, linewidth=1.5, label=line.name)
    if len(line.seeds) > 1:
        least = [connections / max(place.active) for place in whole]
        most = [connections / min(place.active) for place in whole]
        axes.fill_between(direct, least, most, color=colour, alpha=0.2, linewidth=0)
    for kept, active in line.last:
        axes.plot([connections / kept], [connections / active], "x", color=colour, markersize=7)


def plot_quotas(page: QuotaPage, path: Path) -> None:
    """One place per layer in order, its compression on a log axis; a layer that keeps nothing has none."""
    page = escaped(page, plain)
    figure, axes = _figure()
    for i, (lsq, kept) in enumerate(page.kept.items()):
        ratios = [weights / n if n else float("nan") for (*_, weights), n in zip(page.layers, kept, strict=True)]
        axes.plot(ratios, color=f"C{i}", marker=MARKERS[i % len(MARKERS)], markersize=4, linewidth=1.5, label=lsq)
    names = [name for name, *_ in page.layers]
    step = -(-len(names) // 40)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=90 if len(names) > 6 else 0, fontsize="x-small")
    axes.set(yscale="log", ylabel="compression of the layer")
    axes.set_title(f"{Path(page.model).name} at a direct sparsity of {page.target}", loc="left", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    for text in figure.findobj(import_module("matplotlib.text").Text):
        text.set_parse_math(False)  # a dollar sign in a name is no formula
    # Equal data give equal bytes: no date, and identifiers that do not change from run to run.
    with import_module("matplotlib").rc_context({"svg.hashsalt": "effsparse"}):
        figure.savefig(path, dpi=160, metadata={} if path.suffix == ".png" else _undated(path))


def _undated(path: Path) -> dict[str, Any]:
    return {"Date": None} if path.suffix == ".svg" else {"CreationDate": None}
