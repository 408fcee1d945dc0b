"""Plot the compression that each quota gives to each layer, as in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.figure import MARKERS, build_figure, save_figure

if TYPE_CHECKING:
    from effsparse_cli.report.quotas.page import QuotaPage

MAX_NAMES = 40


def plot_quotas(page: QuotaPage, path: Path) -> None:
    """Draw one point per layer, in order, on a log axis. A layer that keeps nothing has no point."""
    page = escaped(page, printable)
    figure, axes = build_figure()
    for i, (lsq, kept) in enumerate(page.kept.items()):
        ratios = [weights / n if n else float("nan") for (*_, weights), n in zip(page.layers, kept, strict=True)]
        axes.plot(ratios, color=f"C{i}", marker=MARKERS[i % len(MARKERS)], markersize=4, linewidth=1.5, label=lsq)
    names = [name for name, *_ in page.layers]
    step = -(-len(names) // MAX_NAMES)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=90 if len(names) > 6 else 0, fontsize="x-small")
    axes.set(yscale="log", ylabel="compression of the layer")
    axes.set_title(f"{Path(page.model).name} at a direct sparsity of {page.target}", loc="left", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    save_figure(figure, path)
