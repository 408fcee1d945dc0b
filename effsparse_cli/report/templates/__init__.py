"""Templates as files, filled by jinja2. Values are escaped: names from models are data, never markup."""

from __future__ import annotations

from typing import Any


def render_template(name: str, **values: Any) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("effsparse_cli.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.get_template(name).render(values)
