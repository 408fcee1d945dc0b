"""Where a network is cut, and which layer would cut it first."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.errors import NothingToMeasureError
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Layer


def square(name: str, kept: int = 4) -> Layer:
    """Two by two, the first `kept` of its connections kept."""
    return Layer(name, "linear", (2, 2), lambda: np.arange(4).reshape(2, 2) < kept)


def chain(b: Builder, x: int, *layers: Layer) -> int:
    for layer in layers:
        x = b.join(b.contract(x, b.weight(layer)))
    return x


def test_an_empty_layer_cuts() -> None:
    b = Builder()
    y = chain(b, b.source("x", (1, 2)), square("a"), square("b", 0), square("c"))
    analysis = analyze_graph(b.finish([y]))
    assert analysis.disconnected
    assert analysis.cut == "b"
    assert analysis.narrowest is None


def test_the_cut_is_where_the_last_signal_ends() -> None:
    """Both branches die; the later one is the place where nothing is left."""
    b = Builder()
    x = b.source("x", (1, 2))
    short = chain(b, x, square("short", 0))
    long = chain(b, x, square("long1"), square("long2", 0))
    assert analyze_graph(b.finish([b.join(short, long)])).cut == "long2"


def test_a_zero_scale_cuts_too() -> None:
    b = Builder()
    y = chain(b, b.source("x", (1, 2)), square("a"))
    b.node_name = "norm"
    y = b.times(y, b.constant(np.zeros((1, 2), bool)))
    assert analyze_graph(b.finish([y])).cut == "norm"


def test_a_shortcut_without_connections_is_a_path() -> None:
    b = Builder()
    x = b.source("x", (1, 2))
    analysis = analyze_graph(b.finish([b.join(x, chain(b, x, square("a", 0)))]))
    assert not analysis.disconnected
    assert analysis.totals.active == 0


def test_narrowest_is_on_every_path() -> None:
    """The branch has fewer connections, but the shortcut goes round it."""
    b = Builder()
    x = chain(b, b.source("x", (1, 2)), square("stem"))
    y = b.join(x, chain(b, x, square("branch", 1)))
    y = chain(b, y, square("head", 3))
    assert analyze_graph(b.finish([y])).narrowest == "head"


def test_embeddings_are_apart_unless_counted() -> None:
    b = Builder()
    ids = b.expand(b.reshape(b.source("ids", (3,)), (3, 1)), (3, 2))
    table = Layer("table", "embedding", (2, 2), lambda: np.ones((2, 2), bool), embedding=True)
    graph = b.finish([chain(b, b.contract(ids, b.weight(table)), square("head"))])
    apart, counted = analyze_graph(graph), analyze_graph(graph, count_embeddings=True)
    assert ([x.name for x in apart.layers], [x.name for x in apart.apart]) == (["head"], ["table"])
    assert [x.name for x in counted.layers] == ["table", "head"]
    b = Builder()
    ids = b.expand(b.source("ids", (3, 1)), (3, 2))
    with pytest.raises(NothingToMeasureError, match="--count-embeddings"):
        analyze_graph(b.finish([b.contract(ids, b.weight(table))]))


def test_nothing_to_measure_is_an_error() -> None:
    b = Builder()
    with pytest.raises(NothingToMeasureError, match="no connections"):
        analyze_graph(b.finish([b.join(b.source("x", (1, 2)))]))


def test_unknown_operators_are_listed_once_and_found_in_scans() -> None:
    b = Builder()
    x = b.source("x", (2,))
    x = b.opaque("custom::a", [x], (2,))
    (x,) = b.scan(lambda body, v: [body.opaque("custom::b", [v[0]], (2,))], [x], steps=2)
    x = b.opaque("custom::a", [x], (2,))
    assert b.finish([x]).unknown_operators == ("custom::a", "custom::b")
