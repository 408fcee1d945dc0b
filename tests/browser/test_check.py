"""The page of a check in Chromium: sort and filter models, and follow links to rules and to the models' own pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from effsparse_cli.cli import run
from effsparse_cli.report.escape import printable
from tests.browser.conftest import Visit, find_violations
from tests.checks.models import chain, with_dead_ends, write_mlp

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "<img src=x onerror=alert(1)>\u202e\n.onnx"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "passes.onnx", chain())
    write_mlp(tmp_path / "fails.onnx", with_dead_ends(1))
    write_mlp(tmp_path / HOSTILE, with_dead_ends(2))
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    models = ["passes.onnx", "fails.onnx", HOSTILE, "broken.onnx"]
    assert run(["check", "--max-gap", "0", "-f", "html", "-o", "check #1.html", "--", *models]) == 3
    return tmp_path / "check #1.html"


def models(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("#models tbody th").all_text_contents()]


def test_page(file: Path, visit: Visit) -> None:
    page = visit(file, viewport={"width": 1200, "height": 900})
    names = ["passes.onnx", "fails.onnx", printable(HOSTILE), "broken.onnx"]
    assert models(page) == names
    assert page.locator(".counts li").all_text_contents() == ["1passes", "2fail", "1could not be checked"]
    assert page.locator("img").count() == 0
    page.locator("#models th button", has_text="effective").click()
    assert models(page)[-1] == "broken.onnx", "a model without a number comes last"
    page.locator("#models th button", has_text="result").click()
    assert models(page)[0] == "broken.onnx"
    page.locator("#models select.states").select_option("fails")
    assert sorted(models(page)) == sorted(names[1:3])
    page.get_by_role("searchbox").fill("1 of 7 kept")
    assert models(page) == ["fails.onnx"], "the filter looks at findings"
    page.get_by_role("searchbox").fill("")
    page.locator("#models select.states").select_option("")
    for _ in range(2):
        assert find_violations(page) == []
        page.locator("#theme").click()


def test_a_finding_leads_to_its_rule(file: Path, visit: Visit) -> None:
    page = visit(file, viewport={"width": 1200, "height": 900})
    rule = page.locator("#EFF004")
    assert not rule.is_visible()
    page.locator("#models td.findings a", has_text="EFF004").first.click()
    rule.wait_for(state="visible")
    assert "The gap is effective minus direct sparsity" in (rule.text_content() or "")


def test_links_lead_to_pages(file: Path, visit: Visit) -> None:
    addresses = visit(file).locator("#models tbody th a").evaluate_all("links => links.map(link => link.href)")
    pages = sorted(page.as_uri() for page in file.with_name("check #1_files").iterdir())
    assert sorted(addresses) == pages
    assert len(pages) == 3
    for page in file.with_name("check #1_files").iterdir():
        assert visit(page).locator("#layers tbody tr").count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phones(file: Path, visit: Visit, scheme: str) -> None:
    page = visit(file, viewport={"width": 400, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    boxes = [cell.bounding_box() for cell in page.locator("#models td.findings").all() if cell.is_visible()]
    assert all(box and box["x"] + box["width"] <= 400 for box in boxes), "findings are read without scrolling"
    assert find_violations(page) == []
