"""`effsparse check --format html`: one page for all models, with a page for each beside it."""

from __future__ import annotations

import json
import os
import webbrowser
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.commands.steps.check_pages import name_pages
from tests.checks.models import chain, with_dead_ends, write_mlp
from tests.commands.conftest import Outcome, Run
from tests.commands.test_hostile_names import FILE_ATTACK
from tests.report.html.documents import Document


@pytest.fixture
def check(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        return effsparse("check", "--max-gap", "0", "-f", "html", *arguments)

    return run


def links(document: Document) -> list[str]:
    return [value or "" for key, value in document.attributes if key == "href" and not (value or "").startswith("#")]


def test_every_measured_model_has_a_page(check: Run, effsparse: Run, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    models = [
        write_mlp(tmp_path / "a b" / "x%.onnx", with_dead_ends(2)),
        write_mlp(tmp_path / "a-b-x-.onnx", chain()),
        write_mlp(tmp_path / f"{FILE_ATTACK}.onnx", chain()),
    ]
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    names = [str(model.relative_to(tmp_path)) for model in models]
    outcome = check("-o", "über check?.html", "--", *names, "broken.onnx")
    assert (outcome.code, outcome.out) == (3, "")
    document = Document((tmp_path / "über check?.html").read_text(encoding="utf-8"))
    expected = json.loads(effsparse("check", "--max-gap", "0", "-f", "json", "--", *names, "broken.onnx").out)
    assert document.data("effsparse-report") == expected
    pages = [tmp_path / unquote(link) for link in links(document)]
    assert sorted(pages) == sorted((tmp_path / "über check?_files").iterdir())
    assert [page.name for page in pages][:2] == ["a-b-x-.onnx.html", "a-b-x-.onnx-2.html"]
    for name, page in zip(names, pages, strict=True):
        own = Document(page.read_text(encoding="utf-8"))
        assert own.data("effsparse-report") == json.loads(effsparse("report", "-f", "json", "--", name).out)
        assert own.data("effsparse-view")["network"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".effsparse")], "nothing else is left"


def test_a_second_run_replaces_its_pages(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    page = tmp_path / "check_files" / "m.onnx.html"
    assert check("m.onnx", "-o", "check.html").code == 1
    page.write_text("old")
    (page.parent / "other.html").write_text("other")
    assert check("m.onnx", "-o", "check.html").code == 1
    assert "effsparse-report" in page.read_text(encoding="utf-8")
    assert (page.parent / "other.html").read_text() == "other"


def test_without_a_file_there_are_no_links(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    outcome = check("m.onnx")
    assert outcome.code == 1
    assert links(Document(outcome.out)) == []
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_the_page_is_opened(check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    assert check("m.onnx", "-o", "check.html", "--open").code == 1
    assert opened == [(tmp_path / "check.html").as_uri()]


def test_models_are_not_replaced(check: Run, tmp_path: Path) -> None:
    folder = tmp_path / "check_files"
    folder.mkdir()
    model = write_mlp(folder / "m.onnx", chain()).rename(folder / "m.onnx.html")
    content = model.read_bytes()
    write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    for models in (["m.onnx"], ["m.onnx", "check_files/m.onnx.html"]):
        outcome = check(*models, "-o", "check.html")
        assert outcome.code == 2
        assert "is an existing model" in outcome.err or "is an input" in outcome.err
        assert model.read_bytes() == content
        assert not (tmp_path / "check.html").exists()


def test_a_file_that_is_read_during_the_run_is_not_replaced(check: Run, tmp_path: Path) -> None:
    """A claim beside the model is read, here through a link with the name of a page."""
    write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    (tmp_path / "check_files").mkdir()
    card = tmp_path / "check_files" / "m.onnx.html"
    card.write_text("A 50% sparse model.")
    (tmp_path / "README.md").symlink_to(card)
    outcome = check("m.onnx", "-o", "check.html", "--write-baseline", "baseline.json")
    assert outcome.code == 2
    assert "was read in this run" in outcome.err
    assert card.read_text() == "A 50% sparse model."
    assert sorted(os.listdir(tmp_path)) == ["README.md", "check_files", "m.onnx"]


def test_the_folder_may_not_be_a_file(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "check_files").write_text("")
    outcome = check("m.onnx", "-o", "check.html")
    assert outcome.code == 2
    assert "check_files, which is a file" in outcome.err


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=300), unique=True, max_size=8))
def test_names_of_pages_are_safe_and_unique(paths: list[str]) -> None:
    models = [*{str(Path(path)): Path(path) for path in paths}.values()]
    names = [*name_pages(models).values()]
    assert len({name.casefold() for name in names}) == len(models)
    for name in names:
        assert name.isascii()
        assert name == os.path.basename(name)
        assert not name.startswith((".", "-"))
        assert name.endswith(".html")
        assert len(name) < 120
