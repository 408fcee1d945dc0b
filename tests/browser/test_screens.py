"""The page on phones and large screens, and results in notebooks, with and without JavaScript."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import effsparse
from tests.browser.conftest import Visit, find_violations
from tests.browser.models import SAMPLES, disconnected, lenet_300_100, vit
from tests.browser.test_page import column, write

FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
NOTEBOOK = "<!doctype html><html lang=en><title>Notebook</title><main><h1>Cells</h1>{}</main></html>"


def test_page_fits_the_screen(visit: Visit, tmp_path: Path) -> None:
    file = write(vit(), tmp_path)
    for width, colours in ((400, "light"), (400, "dark"), (2000, "light"), (2000, "dark")):
        page = visit(file, viewport={"width": width, "height": 800}, color_scheme=colours)
        assert page.evaluate(FITS)
        page.locator('#layers tr[data-row="0"] button.open').click()
        page.locator('#layer[data-loaded="0"]').wait_for()
        assert page.evaluate(FITS)
        assert find_violations(page) == []


def test_page_without_scripts(visit: Visit, tmp_path: Path) -> None:
    report = disconnected()
    page = visit(write(report, tmp_path), java_script_enabled=False)
    assert column(page, "layer") == [layer.name for layer in report.layers]
    assert (report.cut or "") in (page.locator("#verdict").text_content() or "")
    assert not page.locator("#theme").is_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_two_results_in_a_notebook(scripts: bool, visit: Visit, tmp_path: Path) -> None:
    reports = [lenet_300_100(), disconnected()]
    file = tmp_path / "notebook.html"
    file.write_text(NOTEBOOK.format("".join(report._repr_html_() for report in reports)), encoding="utf-8")
    page = visit(file, java_script_enabled=scripts)
    for report, shown in zip(reports, page.locator(".effsparse").all(), strict=True):
        names = shown.locator("tbody th .name")
        assert names.all_text_contents() == [layer.name for layer in report.layers]
        assert shown.locator("button.sort").count() == (shown.locator("thead th").count() if scripts else 0)
    if scripts:
        first = page.locator(".effsparse").first
        first.get_by_role("button", name="layer", exact=True).dblclick()
        assert first.locator("tbody th .name").all_text_contents() == [x.name for x in reversed(reports[0].layers)]
        assert find_violations(page) == []


def test_page_with_a_curve(visit: Visit, tmp_path: Path) -> None:
    curve = effsparse.curve(SAMPLES / "lenet300_uniform99.pt", points=4)
    file = tmp_path / "report.html"
    file.write_text(lenet_300_100().render("html", curve=curve), encoding="utf-8")
    page = visit(file, viewport={"width": 400, "height": 800})
    assert json.loads(page.locator("#effsparse-view").text_content() or "")["curve"]["points"]
    assert page.locator("#curve svg").is_visible()
    assert page.evaluate(FITS)
    assert find_violations(page) == []
