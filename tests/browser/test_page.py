"""The HTML page in Chromium: what it shows is what the report says, and everything works by mouse and by keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from effsparse_cli.formatting import thousands
from effsparse_cli.report.analysis.report import Report
from effsparse_cli.report.escape import printable
from tests.browser.conftest import Visit, find_violations
from tests.browser.models import MODELS

if TYPE_CHECKING:
    from playwright.sync_api import Page

CELL = re.compile(r"outputs? (\d+)(?: to (\d+))?, inputs? (\d+)(?: to (\d+))?(?:, kernel (\d+),(\d+))?: (.*)")


def write(report: Report, folder: Path) -> Path:
    file = folder / "report.html"
    file.write_text(report.render("html"), encoding="utf-8")
    return file


def column(page: Page, title: str) -> list[str]:
    """Return the cells of a column, without the total."""
    titles = [text.strip() for text in page.locator("#layers thead th").all_text_contents()]
    cells = page.locator(f"#layers tbody tr > :nth-child({titles.index(title) + 1})")
    return [text.strip() for text in cells.all_text_contents()]


def numbers(cells: list[str]) -> list[float]:
    return [float(re.match(r"[\d.,]+", cell)[0].replace(",", "")) for cell in cells]  # type: ignore[index]


@pytest.mark.parametrize("model", MODELS)
def test_page(model: str, visit: Visit, tmp_path: Path) -> None:
    report = MODELS[model]()
    page = visit(write(report, tmp_path), viewport={"width": 1200, "height": 900})
    check_data(page, report)
    check_sorting(page, report)
    check_filter(page, report)
    check_grouping(page, report)
    check_layer(page, report)
    check_network(page, report)
    assert find_violations(page) == []
    page.locator("#theme").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert find_violations(page) == []


def check_data(page: Page, report: Report) -> None:
    """The page holds the JSON report, and the table its layers."""
    assert json.loads(page.locator("#effsparse-report").text_content() or "") == report.to_dict()
    assert column(page, "layer") == [printable(layer.name) for layer in report.layers]
    assert numbers(column(page, "active")) == [layer.counts.active for layer in report.layers]
    assert (page.locator(".measures").get_attribute("data-state") == "disconnected") == report.disconnected
    assert (report.cut or "") in (page.locator("#verdict").text_content() or "")


def check_sorting(page: Page, report: Report) -> None:
    active = [layer.counts.active for layer in report.layers]
    heading = page.locator("#layers th", has=page.locator("button", has_text=re.compile("^active$")))
    clicks = (("descending", sorted(active, reverse=True)), ("ascending", sorted(active)), (None, active))
    for order, expected in clicks:
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == order
        assert numbers(column(page, "active")) == expected


def check_filter(page: Page, report: Report) -> None:
    names = [printable(layer.name) for layer in report.layers]
    field = page.get_by_role("searchbox")
    wanted = names[-1][-6:].lower()
    field.fill(wanted)
    found = [name for name in names if wanted in name.lower()]
    assert column(page, "layer") == found
    assert page.locator("#layers .status").text_content() == (
        "" if len(found) == len(names) else f"{len(found)} of {len(names)} layers"
    )
    field.fill("no layer has this name")
    assert column(page, "layer") == []
    field.fill("")
    assert column(page, "layer") == names


def check_grouping(page: Page, report: Report) -> None:
    grouping = page.locator("#layers select.grouping")
    if not grouping.count():
        assert len({layer.name.split(".")[0] for layer in report.layers}) == len(report.layers)
        return
    grouping.select_option("1")
    groups = page.locator("#layers tr.group")
    assert sum(numbers(column(page, "active"))) == report.totals.active
    rows = page.locator("#layers tbody tr").count()
    toggle = groups.first.locator("button.toggle")
    toggle.focus()
    page.keyboard.press("Enter")
    assert toggle.get_attribute("aria-expanded") == "true"
    assert page.locator("#layers tr.member").count() == page.locator("#layers tbody tr").count() - rows > 0
    toggle.click()
    assert page.locator("#layers tbody tr").count() == rows
    grouping.select_option("0")
    assert page.locator("#layers tbody tr").count() == len(report.layers)


def check_layer(page: Page, report: Report) -> None:
    """Open a layer by mouse, read the image by mouse and keys, go to the next layer, and close by Escape."""
    dialog, at = page.locator("#layer"), 1
    page.locator(f'#layers tr[data-row="{at}"] button.open').click()
    show_layer(page, report, at)
    box = page.locator("#layer-image").bounding_box()
    assert box is not None
    for share in (0.1, 0.5, 0.9):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
        check_cell(page.locator("#layer-hover").text_content() or "", report, at)
    before = page.locator("#layer-hover").text_content()
    page.locator("#layer-image").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert page.locator("#layer-hover").text_content() != before
    check_cell(page.locator("#layer-hover").text_content() or "", report, at)
    assert find_violations(page) == []
    page.locator("#layer-close").focus()
    page.keyboard.press("ArrowLeft")
    show_layer(page, report, at - 1)
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    row = page.locator('#layers tr[data-row="0"] button.open')
    row.focus()
    page.keyboard.press("Enter")
    show_layer(page, report, 0)
    page.keyboard.press("Escape")


def show_layer(page: Page, report: Report, at: int) -> None:
    page.locator(f'#layer[data-loaded="{at}"]').wait_for()
    layer = report.layers[at]
    assert page.locator("#layer-name").text_content() == printable(layer.name)
    legend = page.locator("#layer-legend").text_content() or ""
    assert f"pruned {thousands(layer.counts.connections - layer.counts.kept)}" in legend
    assert layer.counts.active == 0 or f"active {thousands(layer.counts.active)}" in legend


def check_cell(text: str, report: Report, at: int) -> None:
    """Compare the text shown for a cell with the mask of active connections."""
    found = CELL.fullmatch(text)
    assert found is not None, text
    layer, mask = report.layers[at], report.active_masks[report.layers[at].name]
    if layer.op not in ("linear", "conv2d"):
        return
    rows, columns = (slice(int(found[i]), int(found[i + 1] or found[i]) + 1) for i in (1, 3))
    part = mask[rows, columns]
    if found[5] is not None:
        part = part[:, :, int(found[5]), int(found[6])]
    said = re.search(r"([\d,]+) active", found[7])
    single = bool(re.search(r"(?<![\d,] )active", found[7]))
    assert int(np.count_nonzero(part)) == (int(said[1].replace(",", "")) if said else int(single)), text


def check_network(page: Page, report: Report) -> None:
    network = json.loads(page.locator("#effsparse-view").text_content() or "")["network"]
    layers = [node for node in network["nodes"] if node["kind"] == "layer"]
    press_if_enabled(page, "#network-expand")
    boxes = page.locator("#network .box.layer")
    assert boxes.count() == len(layers)
    names = boxes.evaluate_all("boxes => boxes.map(box => box.dataset.name)")
    assert sorted(names) == sorted(printable(node["name"]) for node in layers)
    marked = page.locator("#network .box.marked").evaluate_all("boxes => boxes.map(box => box.dataset.name)")
    assert {*marked} == {printable(report.cut or report.narrowest or "")}
    boxes.first.scroll_into_view_if_needed()
    boxes.first.hover()
    assert page.locator("#tip").is_visible()
    assert (boxes.first.get_attribute("data-name") or "") in (page.locator("#tip").text_content() or "")
    first = page.locator('#network .box[tabindex="0"]')
    first.focus()
    start = first.get_attribute("data-box")
    page.keyboard.press("ArrowRight")
    focused = page.locator("#network .box:focus")
    assert focused.get_attribute("data-box") != start
    while "layer" not in (focused.get_attribute("class") or ""):
        page.keyboard.press("ArrowRight")
    name = focused.get_attribute("data-name")
    page.keyboard.press("Enter")
    assert page.locator("#layer-name").text_content() == name
    page.keyboard.press("Escape")
    press_if_enabled(page, "#network-collapse")
    modules = page.locator("#network .box.module")
    if modules.count():
        assert boxes.count() < len(layers)
        count = page.locator("#network .box").count()
        modules.first.focus()
        page.keyboard.press("Enter")
        assert page.locator("#network .box").count() > count


def press_if_enabled(page: Page, button: str) -> None:
    """A button that would change nothing is disabled."""
    if page.locator(button).is_enabled():
        page.locator(button).click()
