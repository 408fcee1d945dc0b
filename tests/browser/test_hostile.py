"""Layers and files whose names are markup, quotes, line breaks, right-to-left marks or very long are shown as text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import effsparse
from effsparse_cli.report.escape import printable
from tests.browser.conftest import Visit, find_violations
from tests.browser.test_page import column
from tests.checks.models import write_mlp

NAMES = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'><b onmouseover=alert(1)>&amp;&#60;{{ 7 * 7 }}",
    "one\ntwo\r\tthree\u2028four",
    "\u202eright to left\u2066\u200b",
    "x" * 10_000,
)


@pytest.mark.parametrize("width", [400, 1200])
def test_names_are_text(width: int, visit: Visit, tmp_path: Path) -> None:
    weights = {name: np.eye(4, dtype=np.float32) for name in NAMES}
    model = write_mlp(tmp_path / "<img src=x onerror=alert(1)>.onnx", weights)
    report = effsparse.analyze(model, pictures=True)
    file = tmp_path / "report.html"
    file.write_text(report.render("html"), encoding="utf-8")
    page = visit(file, viewport={"width": width, "height": 800})
    assert [layer.name for layer in report.layers] == list(NAMES)
    assert json.loads(page.locator("#effsparse-report").text_content() or "")["layers"][0]["name"] == NAMES[0]
    assert column(page, "layer") == [printable(name) for name in NAMES]
    assert page.locator("h1").text_content() == "<img src=x onerror=alert(1)>.onnx"
    for at, name in enumerate(NAMES):
        page.locator(f'#layers tr[data-row="{at}"] button.open').click()
        page.locator(f'#layer[data-loaded="{at}"]').wait_for()
        assert page.locator("#layer-name").text_content() == printable(name)
        page.keyboard.press("Escape")
    boxes = page.locator("#network .box.layer")
    for box in boxes.all():
        box.hover()
        assert (box.get_attribute("data-name") or "nothing") in (page.locator("#tip").text_content() or "")
    assert page.locator("img, b[onmouseover]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert find_violations(page) == []
