"""JSON for scripts: every point of every line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.document import json_text

if TYPE_CHECKING:
    from effsparse_cli.report.curves.page import CurvePage

SCHEMA_VERSION = 1


def render(page: CurvePage) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "connections": page.connections,
        "curves": [
            {
                "name": line.name,
                "seeds": list(line.seeds),
                "points": [{"kept": point.kept, "active": list(point.active)} for point in line.points],
                "last_connected": [{"kept": kept, "active": active} for kept, active in line.last],
            }
            for line in page.lines
        ],
    }
    return json_text(document)
