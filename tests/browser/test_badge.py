"""The badge as an image and in a page: its text fits without the font that its widths were measured in."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.page import build_page
from tests.browser.conftest import Visit, find_violations
from tests.report.cases import CASES

BOXES = "[...document.querySelectorAll('rect[fill], text')].map(e => e.getBBox()).map(b => [b.x, b.x + b.width])"


@pytest.mark.parametrize("case", ["headline", "disconnected", "tiny_gap", "dense"])
def test_text_fits(case: str, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "badge.svg"
    file.write_text(FORMATS["badge"](build_page("m", CASES[case])), encoding="utf-8")
    page = visit(file)
    left, right, label, value = page.evaluate(BOXES)
    assert left[0] < label[0] < label[1] < left[1] == right[0] < value[0] < value[1] < right[1]


def test_badge_is_announced(visit: Visit, tmp_path: Path) -> None:
    badge = FORMATS["badge"](build_page("m", CASES["disconnected"]))
    assert ElementTree.fromstring(badge).attrib["aria-label"] == "effective sparsity: disconnected"
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><html lang=en><title>Badge</title><main><h1>Model</h1>{badge}</main></html>")
    page = visit(file)
    assert page.get_by_role("img", name="effective sparsity: disconnected").is_visible()
    assert find_violations(page) == []
