"""The tests of pages can fail: what a page must not do is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import find_violations, watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = "<!doctype html><html lang=en><title>T</title><main><h1>H</h1>{}</main></html>"
HARM = {
    "requested file:///nowhere.png": "<img alt='' src='file:///nowhere.png'>",
    "opened a dialog: 1": "<script>alert(1)</script>",
    "raised oops": "<script>throw new Error('oops')</script>",
    "told": "<script>console.error('told')</script>",
}


@pytest.mark.parametrize("problem", HARM)
def test_harm_is_noticed(problem: str, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(PAGE.format(HARM[problem]))
    page = browser.new_page()
    problems: list[str] = []
    watch(page, file.as_uri(), problems)
    page.goto(file.as_uri())
    page.close()
    assert problem in problems


def test_violations_are_found(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(PAGE.format("<button></button><p style='color:#ccc;background:#fff'>pale</p>"))
    page = browser.new_page()
    page.goto(file.as_uri())
    found = find_violations(page)
    page.close()
    assert {each.partition(":")[0] for each in found} == {"button-name", "color-contrast"}
