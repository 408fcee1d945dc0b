"""`effsparse methods`: list the scores and quotas that can be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.shared.listing import FORMATS, render_listing
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.pruning import FROM, GLOBAL, QUOTAS, SCORES

EXAMPLES = """\
Examples:
effsparse methods
effsparse methods --format json
"""

Format = Annotated[str, o.format_choice(FORMATS)]
OTHERS = {
    GLOBAL: "One ranking of all layers, instead of a quota.",
    f"{FROM}METHOD": "What the global ranking of another method leaves to each layer.",
}


def methods(format: Format = "table") -> None:
    """List scores (--method) and layerwise quotas (--lsq)."""
    rows = [
        {
            "name": name,
            "option": "--method",
            "data": score.needs_data,
            "rounds": score.rounds,
            "paper": score.paper,
            "about": score.about,
        }
        for name, score in SCORES.items()
    ]
    quotas = {name: (quota.paper, quota.about) for name, quota in QUOTAS.items()}
    for name, (paper, about) in (quotas | {name: ("", about) for name, about in OTHERS.items()}).items():
        rows.append({"name": name, "option": "--lsq", "data": False, "rounds": 0, "paper": paper, "about": about})
    if format == "table":  # a column for papers would leave no room
        rows = [{**row, "about": _with_paper(row)} for row in rows]
        rows = [{name: value for name, value in row.items() if name != "paper"} for row in rows]
    emit(render_listing(format, "methods", rows), None)


def _with_paper(row: Mapping[str, object]) -> str:
    return f"{str(row['about']).rstrip('.')} ({row['paper']})." if row["paper"] else str(row["about"])
