"""Opens files in Chromium. A file must load nothing else, write no error to the console, and run no code of a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page, Request

HERE = Path(__file__).parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = (
    "--no-sandbox",  # the root user of a container has none
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
Visit = Callable[..., "Page"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser per module: while one is open, tests of other modules could not run an event loop of their own."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Return a function that opens a file, with options of a browser context such as `color_scheme`."""
    problems: list[str] = []
    contexts = []

    def open_file(file: Path, **options: Any) -> Page:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        watch(page, file.as_uri(), problems)
        page.goto(file.as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert problems == []


def watch(page: Page, address: str, problems: list[str]) -> None:
    """Add what the page at an address must not do to the problems."""

    def note_request(request: Request) -> None:
        if request.url.partition("#")[0] != address and not request.url.startswith(("data:", "blob:")):
            problems.append(f"requested {request.url}")

    def note_dialog(dialog: Dialog) -> None:
        problems.append(f"opened a dialog: {dialog.message}")
        dialog.dismiss()

    page.on("request", note_request)
    page.on("dialog", note_dialog)
    page.on("pageerror", lambda error: problems.append(f"raised {error}"))
    page.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)


def find_violations(page: Page) -> list[str]:
    """Return what axe-core finds wrong for people with disabilities, if it is serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes']][:3]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
