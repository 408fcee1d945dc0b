"""One file per command: parse, call rooms, print, exit. Only commands join rooms, and import them late."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.commands import check, curve, diff, prune, quotas, report

COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "report": (report.report, report.EXAMPLES),
    "check": (check.check, check.EXAMPLES),
    "diff": (diff.diff, diff.EXAMPLES),
    "prune": (prune.prune, prune.EXAMPLES),
    "quotas": (quotas.quotas, quotas.EXAMPLES),
    "curve": (curve.curve, curve.EXAMPLES),
}
