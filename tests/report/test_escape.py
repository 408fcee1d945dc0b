"""Each format escapes names that it would interpret as markup, commands or formulas."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import csv_cell, github_data, markdown, markdown_code, printable, sarif


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("layer.0/conv::1", "layer.0/conv::1"),
        ("größe 層", "größe 層"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200bb\u2028c\x9bd", r"a\u200bb\u2028c\x9bd"),
        ("::error::x", r"\x3a:error::x"),
        ("x ::stop-commands::y", r"x \x3a:stop-commands::y"),
        ("##[add-matcher]", r"\x23#[add-matcher]"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_plain(name: str, shown: str) -> None:
    assert printable(name) == shown
    assert printable(shown) == shown


@given(st.text())
def test_plain_text_is_one_printable_line(name: str) -> None:
    shown = printable(name)
    assert shown.isprintable()
    assert not shown.lstrip().startswith("::")
    assert "##[" not in shown


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", " =1", "\r=1"])
def test_csv_cells_are_not_formulas(name: str) -> None:
    assert not csv_cell(name).lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))
    text = io.StringIO()
    csv.writer(text).writerow([csv_cell(name), "x"])
    assert next(csv.reader(io.StringIO(text.getvalue()))) == [csv_cell(name), "x"]


HOSTILE = ["[x](http://e.vil)", "<img src=x onerror=alert(1)>", "a|b", r"a\|b", "`a`", "``b", "*a* _b_ ~~c~~", "&lt;"]
HOSTILE += ["![i](http://e.vil)", "https://e.vil", "www.e.vil", "# head", "a\\", "@somebody", "$x$", "<!-- a"]


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_renders_as_plain_text(name: str) -> None:
    """Rendered by an independent implementation, with tables, automatic links and HTML enabled."""
    render = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    (paragraph, *_), _ = [t.children for t in render.parse(f"- {markdown(name)}\n") if t.children], None
    kinds = {child.type for child in paragraph}
    assert kinds <= ({"text", "text_special"} | ({"code_inline"} if name.startswith("@") else set()))
    table = render.parse(f"| a | b |\n|---|---|\n| {markdown_code(name)} | {markdown(name)} |\n")
    assert sum(token.type == "td_open" for token in table) == 2
    cells = [token for token in table if token.type == "inline"][-2:]
    assert [child.type for child in cells[0].children or []] == ["code_inline"]
    assert not re.search(r"(?<![\\\w])(https?:|www\.)", markdown(name))


@given(st.text(min_size=1))
def test_markdown_code_stays_in_one_cell(name: str) -> None:
    render = MarkdownIt("commonmark").enable("table")
    table = render.parse(f"| a | b |\n|---|---|\n| {markdown_code(name)} | x |\n")
    assert sum(token.type == "td_open" for token in table) == 2


@given(st.text())
def test_json_keeps_names_and_is_printable(name: str) -> None:
    text = json_text({"name": name})
    assert json.loads(text) == {"name": name}
    assert text.replace("\n", "").isprintable()


def test_github_and_sarif() -> None:
    assert sarif("see [x](1) \\ \n") == r"see \[x\](1) \\ \\n"
    assert github_data("100%\n::error::") == r"100%25\n::error::"
