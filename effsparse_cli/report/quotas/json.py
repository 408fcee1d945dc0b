"""JSON for scripts: what each quota keeps in each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.document import json_text

if TYPE_CHECKING:
    from effsparse_cli.report.quotas.page import QuotaPage

SCHEMA_VERSION = 1


def render(page: QuotaPage) -> str:
    layers = [
        {
            "name": name,
            "shape": list(shape),
            "connections": weights,
            "kept": {lsq: kept[i] for lsq, kept in page.kept.items()},
        }
        for i, (name, shape, weights) in enumerate(page.layers)
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "target": page.target,
        "connections": page.connections,
        "layers": layers,
        "notes": list(page.notes),
    }
    return json_text(document)
