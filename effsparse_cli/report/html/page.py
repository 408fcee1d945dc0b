"""The page of `effsparse report --format html`: one file that contains its data, scripts and styles."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from effsparse_cli.report.analysis import json as report_json
from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.html.curve import curve_to_json, draw_curve
from effsparse_cli.report.html.filling import embed_json, fill_template
from effsparse_cli.report.html.table import build_table
from effsparse_cli.report.html.verdict import build_verdict
from effsparse_cli.report.html.view import build_view
from effsparse_cli.version import __version__

if TYPE_CHECKING:
    from effsparse_cli.report.analysis.page import AnalysisPage


def render(page: AnalysisPage) -> str:
    """Return the page. Without pictures in the analysis, it has neither the network nor images of layers."""
    view = _select_view(page)
    shown = escaped(replace(page, analysis=replace(page.analysis, network=None, pictures={})), printable)
    return fill_template(
        "page.html",
        script="page.js",
        file=PurePath(shown.model).name or shown.model,
        model=shown.model,
        engine=shown.analysis.engine,
        version=__version__,
        verdict=build_verdict(shown.analysis),
        table=build_table(shown),
        network=view["network"] is not None,
        curve=draw_curve(shown.curve) if shown.curve else None,
        document=embed_json(report_json.render(page)),
        view=embed_json(json.dumps(view, allow_nan=False, separators=(",", ":"))),
    )


def _select_view(page: AnalysisPage) -> dict[str, Any]:
    """Leave out the pictures of layers that the page does not show, and the network unless it shows all layers."""
    analysis = page.analysis
    names = {layer.name for layer in page.layers}
    shown = names | {layer.name for layer in analysis.apart}
    pictures = {name: picture for name, picture in analysis.pictures.items() if name in shown}
    network = analysis.network if names == {layer.name for layer in analysis.layers} else None
    curve = curve_to_json(page.curve) if page.curve else None
    return build_view(replace(analysis, network=network, pictures=pictures), curve)
