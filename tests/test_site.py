"""Every page of the documentation is run, every public function has an example that runs, and the site is complete."""

from __future__ import annotations

import copy
import doctest
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pre_commit.yaml import yaml_load
from safetensors.torch import save_file
from torch import nn

import effsparse
from effsparse_cli.formats.masks.conventions import CONVENTIONS
from tests.pages import ROOT, run_page

DOCS = ROOT / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
CODES = ["", "EFF006", "EFF002", "EFF004", "EFF009", "EFF001", ""]
"""The rules in the output of each command of released_model.md; the first and the last show none."""


@pytest.mark.parametrize("name", [page for page in PAGES if "```" in (DOCS / page).read_text(encoding="utf-8")])
def test_code_blocks(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_page(DOCS / name, tmp_path, capsys, monkeypatch)
    if name == "released_model.md":
        assert [code for code, _ in done.shown] == [0, 1, 1, 1, 1, 1, 0]
        assert all(code in text for (_, text), code in zip(done.shown, CODES, strict=True))


def render_conventions() -> str:
    rows = []
    for each in CONVENTIONS:
        weight = f", with the weight in `{each.weight_name('fc.weight')}`" if each.renames_weight else ""
        rows.append(f"| {each.library} | `{each.mask_name('fc.weight')}`{weight} |")
    return "\n".join(["| library | mask |", "|---|---|", *dict.fromkeys(rows)])


def test_mask_conventions_are_listed() -> None:
    page = DOCS / "formats.md"
    table = re.compile(r"(?<=<!-- conventions -->\n).*?(?=<!-- end of conventions -->)", re.DOTALL)
    fresh = table.sub(lambda _: f"{render_conventions()}\n", page.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(fresh, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == fresh


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert sorted(re.findall(r"(\w+\.md)$", text, re.MULTILINE)) == PAGES


def test_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    for name in public_functions():
        assert re.search(rf'id="[\w.]+\.{name}"', reference), name
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.search(r'<(?:link|script|img)[^>]*(?:src|href)="https?:', page.read_text(encoding="utf-8")), page


def test_nothing_is_loaded_from_other_hosts() -> None:
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    for page in PAGES:
        assert not re.search(r"!\[[^]]*\]\(http", (DOCS / page).read_text(encoding="utf-8")), page


@pytest.mark.parametrize("page", PAGES)
def test_links_exist(page: str) -> None:
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", (DOCS / page).read_text(encoding="utf-8")):
        assert (DOCS / link).exists(), link


def test_pictures_are_what_the_script_draws(tmp_path: Path) -> None:
    """They are compared by name and size: other versions of matplotlib draw the same with other numbers."""
    drawn = runpy.run_path(str(DOCS / "pictures" / "make.py"))
    drawn["write"](tmp_path)
    stored = {path.name: path.stat().st_size for path in (DOCS / "pictures").glob("*.svg")}
    assert stored.keys() == {path.name for path in tmp_path.iterdir()}
    assert max(stored.values()) < 60_000
    for name, size in stored.items():
        assert (tmp_path / name).stat().st_size == pytest.approx(size, rel=0.2)


def public_functions() -> dict[str, Any]:
    return {name: getattr(effsparse, name) for name in effsparse.__all__ if not name.startswith("__")}


def example_names(folder: Path) -> dict[str, Any]:
    """Return the names that examples in docstrings use, and make the files that they read."""
    torch.manual_seed(0)
    model = nn.Sequential()
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1176, 10)]
    for name, layer in zip(("conv1", "relu", "pool", "flatten", "fc1"), layers, strict=True):
        model.add_module(name, layer)
    for name in ("model.onnx", "v1.onnx", "v2.onnx"):
        (folder / name).symlink_to(ROOT / "sample_models" / "lenet5.onnx")
    (folder / "lenet5.pth").symlink_to(ROOT / "sample_models" / "lenet5_masks.pth")
    x = torch.zeros(1, 1, 28, 28)
    masks = effsparse.prune(copy.deepcopy(model), x, 0.9).masks
    save_file({name: torch.from_numpy(mask) for name, mask in masks.items()}, "masks.safetensors")
    return {
        "effsparse": effsparse,
        "torch": torch,
        "nn": nn,
        "model": model,
        "x": x,
        "train": lambda model: None,
        "images": torch.randn(32, 1, 28, 28),
        "labels": torch.randint(10, (32,)),
    }


@pytest.mark.parametrize("name", public_functions())
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(public_functions()[name]) or ""
    examples = doctest.DocTestParser().get_examples(text.partition("Examples:")[2])
    assert examples, f"{name} has no example"
    names = example_names(tmp_path)
    for example in examples:
        if example.options.get(doctest.SKIP):
            continue  # it trains networks
        try:
            value = eval(example.source, names)
        except SyntaxError:
            exec(example.source, names)
        else:
            assert not example.want or repr(value) == example.want.strip(), example.source


def test_reference_lists_every_public_function() -> None:
    listed = re.findall(r"^::: [\w.]+\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(public_functions()) <= set(listed)
