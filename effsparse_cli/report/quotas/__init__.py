"""Formats of `effsparse quotas`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.quotas import csv, json, table
from effsparse_cli.report.quotas.page import QuotaPage

FORMATS: dict[str, Callable[[QuotaPage], str]] = {"table": table.render, "json": json.render, "csv": csv.render}
