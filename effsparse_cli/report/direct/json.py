"""JSON for scripts: one object per tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.document import json_text

if TYPE_CHECKING:
    from effsparse_cli.report.direct.page import DirectPage

SCHEMA_VERSION = 1


def render(page: DirectPage) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "direct_only": True,
        "totals": page.total.numbers,
        "tensors": [{"name": row.name, "shape": list(row.shape), **row.numbers} for row in page.rows],
        "notes": list(page.notes),
    }
    return json_text(document)
