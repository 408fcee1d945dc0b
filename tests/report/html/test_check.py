"""The page of a check: the numbers of the other formats, links that were given, and names as text."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from effsparse_cli.api.checking import build_report
from effsparse_cli.checks.rules import load_rules
from effsparse_cli.checks.verdicts import Finding, Verdicts
from effsparse_cli.report.escape import printable
from effsparse_cli.report.findings import FORMATS
from effsparse_cli.report.html.check import render
from tests.report.html.documents import Document
from tests.report.html.test_page import HOSTILE
from tests.report.test_findings import ALL, BAD, GOOD, LOST, LOW, run, verdicts

LINKS = {GOOD.model: "check_files/good.onnx.html", BAD.model: "check_files/bad%20one.html"}


def hrefs(document: Document) -> list[str]:
    return [value or "" for key, value in document.attributes if key == "href" and not (value or "").startswith("#")]


def test_the_page_has_the_verdicts() -> None:
    document = Document(FORMATS["html"](ALL))
    assert document.data("effsparse-report") == json.loads(FORMATS["json"](ALL))
    assert document.rows[0] == ["model", "result", "direct", "effective", "findings"]
    assert [row[:4] for row in document.rows[1:]] == [
        [GOOD.model, "passes", "90.00 %", "95.00 %"],
        [BAD.model, "fails", "90.00 %", "95.00 %"],
        [LOST.model, "could not be checked", "", ""],
    ]
    assert document.rows[2][4].count(f"EFF003 effective: {LOW.text}") == 2
    assert "EFF011 unknown-operator (warning): 1 unknown operator (Mystery)" in document.rows[2][4]
    assert LOST.problem in document.rows[3][4]
    assert [document.text.count(words) for words in ("3 models checked", "Violated by 1 model.")] == [2, 1]
    assert hrefs(document) == []


def test_links_lead_to_the_pages_that_were_given() -> None:
    assert hrefs(Document(render(ALL, LINKS))) == [*LINKS.values()]


def test_every_rule_is_explained_once_and_findings_lead_there() -> None:
    findings = tuple(replace(LOW, code=code) for code in load_rules())
    document = Document(build_report([replace(BAD, findings=findings)]).to_html())
    targets = [value for key, value in document.attributes if key == "href"]
    assert [f"#{code}" for code in load_rules()] == targets[1:]
    ids = [value for key, value in document.attributes if key == "id"]
    for code, rule in load_rules().items():
        assert ids.count(code) == 1
        for paragraph in rule.about.explanation.split("\n\n"):
            assert document.text.count(paragraph) == 1


@settings(max_examples=30)
@given(verdicts())
def test_any_names(given: Verdicts) -> None:
    document = Document(FORMATS["html"](given))
    assert [row[0] for row in document.rows[1:]] == [printable(verdict.model) for verdict in given.models]
    assert document.data("effsparse-report") == json.loads(FORMATS["json"](given))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", ["page", "notebook"])
def test_names_are_text(name: str, form: str) -> None:
    def document(text: str) -> Document:
        finding = Finding("EFF003", text, text)
        models = [replace(BAD, model=text, findings=(finding,)), replace(LOST, problem=text)]
        report = build_report(models)
        return Document(report.to_html() if form == "page" else report._repr_html_())

    plain, hostile = document("fc"), document(name)
    assert hostile.tags == plain.tags
    assert {key for key, _ in hostile.attributes} == {key for key, _ in plain.attributes}
    assert hostile.rows[1][0] == printable(name)


def test_nothing_is_loaded() -> None:
    text = render(ALL, LINKS)
    assert not re.search(r"https?:|//\w+\.\w|@import|url\((?!#)", text)
    document = Document(text)
    assert not {"link", "iframe", "img", "object", "base"} & {*document.tags}
    assert not any(key in ("src", "data", "action", "formaction", "xlink:href") for key, _ in document.attributes)


def test_a_notebook_shows_results_and_findings() -> None:
    document = Document(build_report([GOOD, BAD, LOST])._repr_html_())
    assert [row[1] for row in document.rows[1:]] == ["passes", "fails", "could not be checked"]
    assert "3 models checked: 1 passes, 1 fails, 1 could not be checked (EFF003)" in document.text
    assert not {"id", "href"} & {key for key, _ in document.attributes}
    assert run().models == ()
    assert Document(build_report([])._repr_html_()).rows == [document.rows[0]]
