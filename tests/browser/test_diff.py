"""The page of two models in Chromium: sort, filter, group, and open layers by mouse and by keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import effsparse
from effsparse_cli.formatting import thousands
from effsparse_cli.report.comparison import Difference
from effsparse_cli.report.escape import printable
from tests.browser.conftest import Visit, find_violations
from tests.browser.test_hostile import NAMES
from tests.browser.test_page import column, numbers
from tests.checks.models import write_mlp

if TYPE_CHECKING:
    from playwright.sync_api import Page

LABELS = {
    "same": "active in both",
    "gained": "gained",
    "revived": "revived",
    "lost": "lost",
    "newly_dead": "newly dead",
    "inactive": "inactive in both",
}


class Network(nn.Module):
    """Layers in modules, a convolution, and a layer that only one of two networks has."""

    def __init__(self, seed: int, extra: bool, hidden: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten())
        self.body = nn.Sequential(nn.Linear(128, 40), nn.ReLU(), nn.Linear(40, 30))
        self.extra = nn.Linear(30, 30) if extra else nn.Identity()
        self.head = nn.Sequential(nn.Linear(30, hidden), nn.Linear(hidden, 5))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in self.parameters():
                if weight.ndim > 1:
                    # Half of the weights are the same in all networks.
                    shared = torch.rand(weight.shape, generator=torch.Generator().manual_seed(7)) < 0.05
                    weight.copy_(shared | (torch.rand(weight.shape, generator=generator) < 0.03))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.extra(self.body(self.stem(x))))
        return y


def write(difference: Difference, folder: Path) -> Path:
    file = folder / "diff.html"
    file.write_text(difference.to_html(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def difference() -> Difference:
    networks = Network(1, extra=True, hidden=9), Network(2, extra=False, hidden=8)
    return effsparse.diff(*networks, torch.zeros(1, 3, 4, 4), pictures=True)


def test_page(difference: Difference, visit: Visit, tmp_path: Path) -> None:
    page = visit(write(difference, tmp_path), viewport={"width": 1200, "height": 900})
    assert json.loads(page.locator("#effsparse-report").text_content() or "") == difference.to_dict()
    names = [pair.name for pair in difference.pairs] + [layer.name for layer in difference.only_before]
    assert column(page, "layer") == names == ["stem.0", "body.0", "body.2", "head.0", "head.1", "extra"]
    check_table(page, difference, names)
    check_layers(page, difference)
    for _ in range(2):
        assert find_violations(page) == []
        page.locator("#theme").click()


def check_table(page: Page, difference: Difference, names: list[str]) -> None:
    heading = page.locator("#layers th", has=page.locator("button", has_text=re.compile("^active after$")))
    heading.locator("button").click()
    active = [pair.after.counts.active for pair in difference.pairs]
    assert numbers(column(page, "active after")[:-1]) == sorted(active, reverse=True)
    assert column(page, "active after")[-1] == "", "layers without a number come last"
    heading.locator("button").click(click_count=2)
    page.get_by_role("searchbox").fill("body")
    assert column(page, "layer") == ["body.0", "body.2"]
    page.get_by_role("searchbox").fill("")
    states = page.locator("#layers select.states")
    assert states.locator("option").all_text_contents() == [
        "all 6",
        "changed (3)",
        "other shape (2)",
        "only in Network (1)",
    ]
    states.select_option("other shape")
    assert column(page, "layer") == ["head.0", "head.1"]
    states.select_option("")
    page.locator("#layers select.grouping").select_option("1")
    assert column(page, "layer") == ["stem.0", "body", "head", "extra"]
    body = [pair for pair in difference.pairs if pair.name.startswith("body")]
    assert column(page, "gained")[1] == thousands(sum(pair.moves.gained for pair in body if pair.moves))
    assert column(page, "gained")[2] == "?"
    page.locator("#layers select.grouping").select_option("0")
    assert column(page, "layer") == names


def check_layers(page: Page, difference: Difference) -> None:
    """Every kind has its number in the legend, and each cell says which it is."""
    page.locator('#layers tr[data-row="1"] button.open').click()
    page.locator('#layer[data-loaded="1"]').wait_for()
    counts = difference.pictures["body.0"].counts
    assert counts.keys() == LABELS.keys(), "the networks must have all kinds"
    legend = page.locator("#layer-legend button")
    totals = {kind: int(np.sum(each, dtype=np.int64)) for kind, each in counts.items()}
    expected = [f"{LABELS[kind]} {thousands(total)}" for kind, total in totals.items()]
    assert legend.all_text_contents() == expected
    assert f"pruned {thousands(40 * 128 - sum(totals.values()))}" in (
        page.locator("#layer-legend").text_content() or ""
    )
    page.locator("#layer-image").focus()
    page.keyboard.press("ArrowDown")
    for row in range(3):
        for at in range(12):
            kinds = [LABELS[kind] for kind, each in counts.items() if each[row, at]]
            said = page.locator("#layer-hover").text_content()
            assert said == f"output {row}, input {at}: {', '.join(kinds) or 'pruned'}"
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        for _ in range(12):
            page.keyboard.press("ArrowLeft")
    box = page.locator("#layer-image").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 1, box["y"] + 1)
    assert (page.locator("#layer-hover").text_content() or "").startswith("output 0, input 0: ")
    check_toggles(page)
    assert find_violations(page) == []
    page.keyboard.press("Escape")
    for at, reason in ((3, "The shapes differ"), (5, "This layer is only in Network.")):
        page.locator(f'#layers tr[data-row="{at}"] button.open').click()
        assert reason in (page.locator("#layer").text_content() or "")
        page.keyboard.press("Escape")


def check_toggles(page: Page) -> None:
    """A kind that is switched off is painted as pruned, and returns."""
    paint = "document.querySelector('#layer-image canvas').toDataURL()"
    before = page.evaluate(paint)
    toggle = page.locator('#layer-legend [data-kind="gained"]')
    toggle.press("Enter")
    assert toggle.get_attribute("aria-pressed") == "false"
    assert page.evaluate(paint) != before
    toggle.click()
    assert page.evaluate(paint) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phones(difference: Difference, visit: Visit, tmp_path: Path, scheme: str) -> None:
    page = visit(write(difference, tmp_path), viewport={"width": 400, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert find_violations(page) == []


def test_names_are_text(visit: Visit, tmp_path: Path) -> None:
    files = [
        write_mlp(tmp_path / f"{density}<img src=x onerror=alert(1)>.onnx", make(density)) for density in (0.9, 0.6)
    ]
    difference = effsparse.diff(*files, pictures=True)
    page = visit(write(difference, tmp_path), viewport={"width": 400, "height": 800})
    assert column(page, "layer") == [printable(name) for name in NAMES]
    for at, name in enumerate(NAMES):
        page.locator(f'#layers tr[data-row="{at}"] button.open').click()
        page.locator(f'#layer[data-loaded="{at}"]').wait_for()
        assert page.locator("#layer-name").text_content() == printable(name)
        page.keyboard.press("Escape")
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert find_violations(page) == []


def make(density: float) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    random = np.random.default_rng(0)
    return {name: (random.random((4, 4)) < density).astype(np.float32) for name in NAMES}
