"""The formats of a check's verdicts, one file each."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.checks.verdicts import Verdicts
from effsparse_cli.report import (
    findings_github,
    findings_json,
    findings_junit,
    findings_markdown,
    findings_sarif,
    findings_text,
)

FINDING_FORMATS: dict[str, Callable[[Verdicts], str]] = {
    "text": findings_text.render,
    "json": findings_json.render,
    "github": findings_github.render,
    "junit": findings_junit.render,
    "sarif": findings_sarif.render,
    "markdown": findings_markdown.render,
}
