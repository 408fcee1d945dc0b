"""Matplotlib figures with the colours of the HTML pages. Matplotlib is imported here only."""

from __future__ import annotations

import io
import math
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import replacing

MOST_IN_A_ROW = 4
SUFFIXES = (".svg", ".png", ".pdf")
MARKERS = "osD^vP*X"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1d2125", "#8b96a1")
"""Colours of lines, which survive colour blindness (Okabe and Ito)."""
TEXT, MUTED, RULE = "#1d2125", "#57606a", "#dde1e6"


def check_plot(path: Path, option: str = "--plot") -> None:
    """Raise an error, before any work is done, if the suffix is unknown or matplotlib is missing."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{option} {path}: unknown image format; use {', '.join(SUFFIXES)}")
    build_figure()


def build_figure() -> tuple[Any, Any]:
    """Return an empty figure and its axes."""
    figure, (axes,) = build_panels(1)
    return figure, axes


def build_panels(number: int) -> tuple[Any, list[Any]]:
    """Return a figure with panels side by side, up to four in a row, which share their vertical axis."""
    try:
        drawing = import_module("matplotlib.figure")
    except ImportError as error:
        raise UsageError("plots need matplotlib, which is not installed: pip install matplotlib") from error
    columns = min(number, MOST_IN_A_ROW)
    rows = math.ceil(number / columns)
    figure = drawing.Figure(figsize=(max(7.2, 3.6 * columns), 4.8 * rows), layout="constrained")
    every = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    panels = every[:number]
    for axes in every[number:]:
        axes.remove()
    for axes in panels:
        axes.set_prop_cycle(color=COLOURS)
        axes.grid(True, which="major", color=RULE)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(MUTED)
        # With one length, labels of major and minor ticks are on one line.
        axes.tick_params(which="both", color=MUTED, labelcolor=MUTED, length=3, pad=3.5)
        for text in (axes.xaxis.label, axes.yaxis.label):
            text.set_color(TEXT)
    return figure, panels


def colour_of(number: int) -> str:
    """Return the colour of a line by its number."""
    return COLOURS[number % len(COLOURS)]


def marker_of(number: int) -> str:
    """Return the marker of a line by its number. With the colour it is unique for 64 lines."""
    return MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]


def viridis(shade: float) -> Any:
    """Return a colour between dark (0) and light (1) that survives colour blindness and grey printing."""
    return import_module("matplotlib").colormaps["viridis"](shade)


def save_figure(figure: Any, path: Path) -> None:
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if axis.get_scale() == "log"):
        low, high = axis.get_view_interval()
        axis.set_major_formatter(_tick_label)  # instead of powers of ten, which are formulas
        digits = "123456789" if high < 10 * low else "25" if high < 100 * low else ""
        axis.set_minor_formatter(partial(_minor_label, digits))
    for text in figure.findobj(import_module("matplotlib.text").Text):
        text.set_parse_math(False)  # a dollar sign in a name does not start a formula
    # Equal data give equal bytes: no date, and reproducible identifiers.
    content, suffix = io.BytesIO(), path.suffix.lower()
    with import_module("matplotlib").rc_context({"svg.hashsalt": "effsparse"}):
        metadata = {} if suffix == ".png" else _without_date(path)
        figure.savefig(content, format=suffix.removeprefix("."), dpi=160, metadata=metadata)
    with replacing(path) as temporary:  # matplotlib itself may fail with another error if the disk is full
        temporary.write_bytes(content.getvalue())


def _minor_label(digits: str, value: float, position: int | None) -> str:
    """Label a tick whose first digit is one of these."""
    return _tick_label(value, position) if f"{value:e}"[0] in digits else ""


def _tick_label(value: float, _: int | None) -> str:
    return f"{value:,.0f}" if value >= 1 and f"{value:.3g}" == f"{round(value):.3g}" else f"{value:.3g}"


def _without_date(path: Path) -> dict[str, Any]:
    return {"Date": None} if path.suffix.lower() == ".svg" else {"CreationDate": None}
