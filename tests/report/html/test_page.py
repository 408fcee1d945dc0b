"""The page is well-formed, needs nothing else, has the numbers of the other formats, and shows names as text."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis, Layers
from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.columns import build_columns
from effsparse_cli.report.analysis.meaning import meaning
from effsparse_cli.report.analysis.page import build_page
from effsparse_cli.report.curves import Curves, Line, Point
from effsparse_cli.report.escape import printable
from tests.analysis.networks import module_graph
from tests.report.analyses import analyses, unhurried
from tests.report.cases import CASES, HEADLINE, layer
from tests.report.html.documents import Document

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "end": "</script><img src=x onerror=alert(1)>",
    "quotes": "\"'><b onclick='x'>",
    "template": "{{ 7 * 7 }}{% raw %}",
    "lines": "a\nb\r\u2028c",
    "right-to-left": "\u202egnp.exe\u2066",
    "long": "layer." * 1667,
    "prototype": "__proto__",
    "entity": "&lt;i&gt; <!-- ]]>",
}
CURVE = Curves(
    "m",
    266_200,
    [Line("magnitude, global", (0,), (Point(2_662, (251,)), Point(900, (60,)), Point(300, (0,))), ((500, 9),))],
)


def render(analysis: Analysis, model: str = "m.pt") -> str:
    return FORMATS["html"](build_page(model, analysis))


@pytest.mark.parametrize("case", CASES)
def test_the_page_has_the_numbers_of_the_other_formats(case: str) -> None:
    page = build_page(f"{case}.pt", CASES[case])
    document = Document(FORMATS["html"](page))
    assert document.data("effsparse-report") == json.loads(FORMATS["json"](page))
    assert document.data("effsparse-view") == {"network": None, "pictures": {}, "curve": None}
    columns = build_columns(page).values()
    rows = [list(cells) for cells in zip(*((c.title, *c.cells, c.total) for c in columns), strict=True)]
    assert document.rows[: len(rows)] == rows
    assert all(sentence in document.text for sentence in meaning(CASES[case]))


@unhurried
@given(analyses())
def test_any_analysis_has_a_page_of_its_own_and_the_same_one_every_time(analysis: Analysis) -> None:
    text = render(analysis)
    Document(text)
    assert text == render(analysis)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_names_are_text(name: str) -> None:
    plain = Document(render(HEADLINE))
    renamed = replace(
        HEADLINE,
        layers=Layers([x._replace(name=name) if x.name == "fc3.weight" else x for x in HEADLINE.layers]),
        narrowest=name,
        input_shapes={name: (1,)},
        notes=(name,),
    )
    document = Document(render(renamed, f"folder/{name}"))
    assert document.tags.count("script") == plain.tags.count("script")
    assert {*document.tags} == {*plain.tags}
    assert {key for key, _ in document.attributes} == {key for key, _ in plain.attributes}
    assert document.rows[3][0] == printable(name)
    assert document.data("effsparse-report")["layers"][2]["name"] == name
    assert all(line.isprintable() for line in render(renamed).split("\n"))


def test_nothing_is_loaded() -> None:
    text = FORMATS["html"](build_page("m.pt", HEADLINE, curve=CURVE))
    assert not re.search(r"https?:|//\w+\.\w|@import|url\((?!#)", text)
    document = Document(text)
    assert not {"link", "iframe", "img", "object", "base"} & {*document.tags}
    assert not any(key in ("src", "data", "action", "formaction", "xlink:href") for key, _ in document.attributes)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src" in policy
    assert "unsafe-eval" not in policy


def test_the_curve_is_drawn_up_to_the_last_connected_network() -> None:
    document = Document(FORMATS["html"](build_page("m.pt", HEADLINE, curve=CURVE)))
    curve = document.data("effsparse-view")["curve"]
    assert [point["active"] for point in curve["points"]] == [251, 60, 0]
    assert curve["points"][2]["effective_compression"] is None
    assert curve["last"]["kept"] == 500
    assert document.tags.count("circle") == 2
    assert "Beyond a direct compression of 532.4x" in document.text


def test_the_network_and_pictures_are_those_of_the_layers_shown() -> None:
    analysis = analyze_graph(module_graph("sequence", 0.7), pictures=True)
    names = [each.name for each in analysis.layers]
    whole = Document(FORMATS["html"](build_page("m", analysis))).data("effsparse-view")
    assert {node["name"] for node in whole["network"]["nodes"] if node["kind"] == "layer"} == {*names}
    assert [*whole["pictures"]] == names
    part = Document(FORMATS["html"](build_page("m", analysis, names[:1]))).data("effsparse-view")
    assert part["network"] is None
    assert [*part["pictures"]] == names[:1]


def test_groups_have_the_numbers_of_depth() -> None:
    names = ("a.0.fc", "a.0.out", "a.1.fc", "b.fc", "c")
    counts = HEADLINE.layers[0].counts
    analysis = replace(HEADLINE, layers=Layers([layer(name, "linear", (2, 2), counts) for name in names]))
    document = Document(render(analysis))
    groups = {row[0]: row for row in document.rows[len(names) + 2 :]}
    assert [*groups] == ["a", "a.0"]
    for depth, name in ((1, "a"), (2, "a.0")):
        columns = build_columns(build_page("m", analysis, depth=depth))
        expected = next(row for row in zip(*(c.cells for c in columns.values()), strict=True) if row[0] == name)
        assert [cell for cell in groups[name] if cell] == [cell for cell in expected if cell]
    memberships = [value for key, value in document.attributes if key == "data-groups"]
    assert memberships == ["0 1", "0 1", "0 -1", "-1 -1", "-1 -1"]
