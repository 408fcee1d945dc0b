"""Formats of `effsparse curve`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.curves import csv, json, table
from effsparse_cli.report.curves.page import CurvePage

FORMATS: dict[str, Callable[[CurvePage], str]] = {"table": table.render, "json": json.render, "csv": csv.render}
