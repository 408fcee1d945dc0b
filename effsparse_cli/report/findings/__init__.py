"""Formats of `effsparse check`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.checks.verdicts import Verdicts
from effsparse_cli.report.findings import github, gitlab, json, junit, markdown, sarif, text


def _render_html(verdicts: Verdicts) -> str:
    # Imported here, because this page is made from other formats.
    from effsparse_cli.report.html.check import render

    return render(verdicts)


FORMATS: dict[str, Callable[[Verdicts], str]] = {
    "text": text.render,
    "json": json.render,
    "github": github.render,
    "gitlab": gitlab.render,
    "junit": junit.render,
    "sarif": sarif.render,
    "markdown": markdown.render,
    "html": _render_html,
}
