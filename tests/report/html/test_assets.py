"""The scripts and styles in the package are built from the sources in `web`."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from effsparse_cli.report.html.filling import FOLDER

WEB = Path(__file__).parents[3] / "web"
ASSETS = ("check.js", "diff.js", "page.css", "page.js", "pages.css", "table.css", "table.js")


def hash_sources() -> str:
    """Return the hash that `web/build.mjs` writes."""
    files = [file for folder in ("src", "styles") for file in (WEB / folder).rglob("*") if file.is_file()]
    names = sorted([*(file.relative_to(WEB).as_posix() for file in files), "build.mjs", "package-lock.json"])
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\0".encode() + (WEB / name).read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


@pytest.mark.parametrize("name", ASSETS)
def test_assets_are_up_to_date(name: str) -> None:
    first, _, built = (FOLDER / "assets" / name).read_text(encoding="ascii").partition("\n")
    assert first == f"/* built from {hash_sources()} */", "run `npm ci && npm run build` in web"
    assert "</script" not in built
    assert "</style" not in built


def test_there_are_no_other_assets() -> None:
    assert sorted(file.name for file in (FOLDER / "assets").iterdir()) == [*ASSETS]


def test_the_lock_file_names_no_host() -> None:
    text = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in re.sub(r'"url": "[^"]*"', "", text)
    assert json.loads(text)["packages"][""]["dependencies"].keys() == {"@dagrejs/dagre"}


def test_styles_for_notebooks_leave_the_rest_of_the_notebook_alone() -> None:
    css = (FOLDER / "assets" / "table.css").read_text(encoding="ascii").partition("\n")[2]
    selectors = re.findall(r"(?:^|})([^{}]+){", css)
    assert len(selectors) > 20
    for selector in selectors:
        for each in re.split(r",(?![^(]*\))", selector):
            assert each.strip().startswith(".effsparse"), each
