"""Formats of `effsparse check`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.checks.verdicts import Verdicts
from effsparse_cli.report.findings import github, gitlab, json, junit, markdown, sarif, text

FORMATS: dict[str, Callable[[Verdicts], str]] = {
    "text": text.render,
    "json": json.render,
    "github": github.render,
    "gitlab": gitlab.render,
    "junit": junit.render,
    "sarif": sarif.render,
    "markdown": markdown.render,
}
