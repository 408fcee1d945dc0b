"""Formats of `effsparse compact`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.compaction import json, table
from effsparse_cli.report.compaction.page import CompactionPage

FORMATS: dict[str, Callable[[CompactionPage], str]] = {"table": table.render, "json": json.render}
