"""Fill templates. All values are escaped, except our own assets and JSON made for a script element."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDER = Path(__file__).parent


def fill_template(template: str, **values: Any) -> str:
    """Return a file of the folder `templates`, filled with values. A missing value is an error."""
    return _environment().get_template(template).render(**values).strip() + "\n"


def load_asset(name: str) -> Markup:
    """Return a script or style of the folder `assets`."""
    from markupsafe import Markup

    return Markup(_read_asset(name))


def embed_json(text: str) -> Markup:
    """Return a JSON document for a script element, which no character in it can end."""
    from markupsafe import Markup

    # Both sequences occur only within strings, where the escape has the same meaning.
    return Markup(text.replace("<", r"\u003c").replace("##[", r"#\u0023["))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["asset"] = load_asset
    return environment


@cache
def _read_asset(name: str) -> str:
    return (FOLDER / "assets" / name).read_text(encoding="utf-8").strip()
