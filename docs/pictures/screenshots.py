"""Photograph the HTML page for the documentation: `python docs/pictures/screenshots.py` writes PNG files here. Needs
Chromium, Playwright and Pillow."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import effsparse  # noqa: E402
from effsparse_cli.formats.torch.arch.built_in import resnet50  # noqa: E402

FOLDER = Path(__file__).parent


def write_page(path: Path) -> None:
    """Write the page of a ResNet-50 of which each layer keeps one weight of 200, at random."""
    torch.manual_seed(0)
    model, x = resnet50(), torch.zeros(1, 3, 224, 224)
    effsparse.prune(model, x, 0.995, direct=True, method="random", lsq="uniform", form="zeros")
    path.write_text(effsparse.analyze(model, x, pictures=True).to_html(), encoding="utf-8")


def save(page: Page, name: str) -> None:
    """Save what the window shows, as small as it gets: the picture is part of the repository."""
    image = Image.open(io.BytesIO(page.screenshot()))
    image.convert("RGB").save(FOLDER / f"{name}.png", optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        write_page(file)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 960}, color_scheme="light")
        page.goto(file.as_uri())
        page.wait_for_selector("#network .box")
        save(page, "page")
        page.click("#layers button.open:has-text('layer2.1.conv2')")
        page.wait_for_selector("#layer[data-loaded]")
        save(page, "page_layer")
        page = browser.new_page(viewport={"width": 400, "height": 1400}, color_scheme="dark")
        page.goto(file.as_uri())
        page.wait_for_selector("#network .box")
        save(page, "page_phone")
        browser.close()


if __name__ == "__main__":
    main()
