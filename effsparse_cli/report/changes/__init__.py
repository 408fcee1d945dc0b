"""Formats of `effsparse prune` and `effsparse repair`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.changes import json, table
from effsparse_cli.report.changes.page import Change

FORMATS: dict[str, Callable[[Change], str]] = {"table": table.render, "json": json.render}
