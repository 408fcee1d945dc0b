"""The page of two models: the numbers of the other formats, layers of one model alone, and names as text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Counts, Layers
from effsparse_cli.comparison.compare import compare
from effsparse_cli.comparison.results import Moves, Pair
from effsparse_cli.formatting import thousands
from effsparse_cli.report.comparison import Difference, build_sentences, format_moves, format_sparsities
from effsparse_cli.report.escape import printable
from effsparse_cli.report.html.filling import FOLDER
from tests.analysis.networks import module_graph
from tests.report.cases import layer
from tests.report.html.documents import Document
from tests.report.html.test_page import HOSTILE

MOVES = ("gained", "revived", "lost", "newly_dead")


def difference(pictures: bool = True) -> Difference:
    graphs = [module_graph("sequence", density, seed) for seed, density in enumerate((0.7, 0.5))]
    return Difference.of(compare("a.pt", graphs[0], "b.pt", graphs[1], count_embeddings=False, pictures=pictures))


def alone(name: str, connections: int = 8) -> Difference:
    """A pair of layers that differ in shape, and a layer of the same name in each model only."""
    one, other = (layer(name, "linear", (2, n), Counts(2 * n, n, 1)) for n in (4, 5))
    analysis = replace(analyze_graph(module_graph("sequence", 0.5)), layers=Layers([one]), notes=(name,))
    return Difference(name, f"b/{name}", analysis, analysis, (Pair(one, other, None),), (one,), (other,))


def test_the_page_has_the_numbers_of_the_other_formats() -> None:
    done = difference()
    document = Document(done.to_html())
    assert document.data("effsparse-report") == done.to_dict()
    assert [*document.data("effsparse-view")["pictures"]] == [pair.before.name for pair in done.pairs]
    titles, *rows, total = document.rows[: len(done.pairs) + 2]
    assert all(sentence in document.text for sentence in build_sentences(done))
    lines = [(pair.name, pair.before.counts, pair.after.counts, pair.moves) for pair in done.pairs]
    lines.append(("total", done.before.totals, done.after.totals, done.moves))
    for row, (name, before, after, moves) in zip([*rows, total], lines, strict=True):
        cells = dict(zip(titles, row, strict=True))
        counts = [before.kept, after.kept, before.active, after.active]
        sides = [f"{measure} {side}" for measure in ("kept", "active") for side in ("before", "after")]
        assert [cells[side] for side in sides] == [thousands(number) for number in counts]
        sides = [f"{measure} {side}" for measure in ("direct", "effective") for side in ("before", "after")]
        assert [cells[side] for side in sides] == [*format_sparsities(before, after)]
        gained, lost, newly_dead, revived = format_moves(moves)
        assert [cells[move.replace("_", " ")] for move in MOVES] == [gained, revived, lost, newly_dead]
        assert cells["layer"] == name


def test_groups_are_sums() -> None:
    old, new = Counts(8, 6, 4), Counts(8, 5, 2)
    pairs = [
        Pair(layer(name, "linear", (2, 4), old), layer(name, "linear", (2, 4), new), Moves(gained=1, lost=2))
        for name in ("a.0.fc", "a.0.out", "a.1.fc", "b")
    ]
    done = difference(pictures=False)
    document = Document(replace(done, pairs=tuple(pairs)).to_html())
    groups = {row[0]: row for row in document.rows[len(pairs) + 2 :]}
    assert groups["a"][1:8] == ["3 layers", "18", "15", "12", "6", "3", ""]
    assert groups["a.0"][1:9] == ["2 layers", "12", "10", "8", "4", "2", "", "4"]
    assert [value for key, value in document.attributes if key == "data-groups"] == ["0 1", "0 1", "0 -1", "-1 -1"]


def test_layers_of_one_model_and_other_shapes() -> None:
    document = Document(alone("fc").to_html())
    states = [value for key, value in document.attributes if key == "data-state"]
    assert [state for state in states if state in ("other shape", "only in fc")] == [
        "other shape",
        "only in fc",
        "only in fc",
    ]
    pair, before, after = document.rows[1:4]
    assert pair[1:6] == ["2x4 -> 2x5", "4", "5", "1", "1"]
    assert pair[6:10] == ["?"] * 4
    assert before[2:6] == ["4", "", "1", ""]
    assert after[2:6] == ["", "5", "", "1"]
    assert "Different shapes, so connections were counted but not compared: fc." in document.text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", ["page", "notebook"])
def test_names_are_text(name: str, form: str) -> None:
    plain, document = (
        Document(done.to_html() if form == "page" else done._repr_html_()) for done in (alone("fc"), alone(name))
    )
    assert document.tags.count("script") == plain.tags.count("script")
    assert {*document.tags} - {"template"} == {*plain.tags}, "names with dots have groups"
    assert {key for key, _ in document.attributes} - {"data-group"} == {key for key, _ in plain.attributes}
    assert len(document.rows) < 40
    assert document.rows[2][0] == printable(name)


def test_nothing_is_loaded() -> None:
    text = difference().to_html()
    assert not re.search(r"https?:|//\w+\.\w|@import|url\((?!#)", text)
    document = Document(text)
    assert not {"link", "iframe", "img", "object", "base"} & {*document.tags}
    assert not any(key in ("src", "data", "action", "formaction", "xlink:href") for key, _ in document.attributes)


def test_a_notebook_shows_the_layers_that_differ() -> None:
    done = difference()
    same = Pair(done.pairs[0].before, done.pairs[0].before, Moves())
    document = Document(replace(done, pairs=(same, *done.pairs[1:]))._repr_html_())
    assert [row[0] for row in document.rows[1:]] == [*(pair.name for pair in done.pairs[1:]), "total"]
    assert document.text.count("What becomes of the kept connections") == 2
    assert "id" not in dict(document.attributes), "two outputs would have the same ids"


Colour = NDArray[np.float64]
SIGHT = {
    # Machado, Oliveira and Fernandes (2009), severity 1
    "full": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def to_lab(colour: str, sight: str) -> Colour:
    """Return a colour as it is seen, in CIELAB."""
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(SIGHT[sight]) @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ seen / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("theme", [0, 1])
def test_colours_of_kinds_survive_colour_blindness(sight: str, theme: int) -> None:
    styles = [(FOLDER / "assets" / name).read_text() for name in ("pages.css", "page.css")]
    kinds = ("same", "gained", "revived", "lost", "newly-dead", "inactive")
    colours = {kind: re.findall(rf"--es-{kind}: *(#\w{{6}})", styles[0])[0] for kind in kinds}
    colours["pruned"] = re.findall(r"--es-pruned: *light-dark\((#\w{6}), *(#\w{6})\)", styles[1])[0][theme]
    seen = {kind: to_lab(colour, sight) for kind, colour in colours.items()}
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)


def test_the_document_is_the_same_every_time() -> None:
    first, second = difference().to_html(), difference().to_html()
    assert first == second
    assert json.loads(difference().to_json()) == Document(first).data("effsparse-report")
