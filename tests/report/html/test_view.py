"""The view that a page draws from: it decodes to the pictures, and fits its budget."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.pictures.draw import draw
from effsparse_cli.analysis.pictures.picture import Frame, Picture
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.kernel.bits import pack
from effsparse_cli.report.html.view import build_view, encode_pictures
from tests.analysis.networks import MODULES, graph_of, module_graph, prune


def decode(picture: dict[str, Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the counts as [kinds, rows of cells, columns of cells], as a page does."""
    data = zlib.decompress(b64decode(picture["cells"], validate=True))
    assert picture["type"] in ("u1", "u2", "u4")
    return np.frombuffer(data, f"<{picture['type']}").reshape(len(picture.get("kinds", [0])), *picture["grid"])


def check(analysis: Analysis, view: dict[str, Any]) -> None:
    assert list(view["pictures"]) == list(analysis.pictures)
    for layer in (*analysis.layers, *analysis.apart):
        shown, counts = view["pictures"][layer.name], layer.counts
        sums = dict(zip(shown["kinds"], decode(shown).sum(axis=(1, 2), dtype=np.int64).tolist(), strict=True))
        kinds = {kind: getattr(counts, kind) for kind in ("active", "no_input", "no_output", "both", "padding")}
        assert sums == {kind: n for kind, n in {**kinds, "carrier": counts.bias_carriers}.items() if n}
        assert shown["grid"] == [
            -(-shown[side] // size) for side, size in zip(("rows", "columns"), shown["cell"], strict=True)
        ]
        assert [len(shown["dead_rows"]), len(shown["dead_columns"])] == shown["grid"]
        assert shown["rows"] == shown["outputs"] * shown["kernel"][0]
        assert shown["columns"] == shown["inputs"] * shown["kernel"][1]
        assert shown["rows"] * shown["columns"] == counts.connections
        for fan in (shown["fan_in"], shown["fan_out"]):
            assert len(fan["edges"]) == len(fan["kept"]) == len(fan["active"])
        if shown["positions"]:
            positions = analysis.pictures[layer.name].positions
            assert positions is not None
            assert decode(shown["positions"])[0].tolist() == positions.counts.tolist()
    json.dumps(view, allow_nan=False)


@pytest.mark.parametrize("name", MODULES)
def test_a_view_decodes_to_the_counts(name: str) -> None:
    analysis = analyze_graph(module_graph(name, 0.4), pictures=True)
    view = build_view(analysis)
    check(analysis, view)
    assert view["curve"] is None
    assert analysis.network is not None
    assert [node["name"] for node in view["network"]["nodes"]] == [node.name for node in analysis.network.nodes]
    assert view["network"]["edges"] == [list(edge) for edge in analysis.network.edges]


def test_large_layers_are_halved_until_they_fit() -> None:
    model = nn.Sequential(
        nn.Linear(700, 900), nn.Linear(900, 30), nn.Unflatten(1, (30, 1, 1)), nn.Conv2d(30, 40, 3, 1, 1)
    )
    analysis = analyze_graph(graph_of(prune(model, 0.3), torch.zeros(1, 700)), pictures=True)
    sizes: list[int] = []
    for per_layer in (100_000, 10_000, 1_000, 100, 0):
        encoded = encode_pictures(analysis.pictures, per_layer)
        check(analysis, {"pictures": encoded})
        sizes.append(
            sum(len(shown["cells"]) + len((shown["positions"] or {"cells": ""})["cells"]) for shown in encoded.values())
        )
        assert sizes[-1] <= per_layer * len(encoded) or per_layer == 0
    assert all(shown["grid"] == [1, 1] for shown in encoded.values())
    assert sizes == sorted(sizes, reverse=True)
    whole = encode_pictures(analysis.pictures, 10**9)
    assert [shown["cell"] for shown in whole.values()] == [[2, 2], [1, 2], [1, 1]]
    assert encode_pictures(analysis.pictures, 10**9, most=sizes[2]).keys() == whole.keys()


def test_a_small_layer_is_not_halved_for_a_large_one() -> None:
    model = nn.Sequential(nn.Linear(700, 900), nn.Linear(900, 30))
    analysis = analyze_graph(graph_of(prune(model, 0.3), torch.zeros(1, 700)), pictures=True)
    large, small = encode_pictures(analysis.pictures, 20_000).values()
    assert small["cell"] == [1, 2]
    assert large["cell"] > [2, 2]


def test_channels_take_less_room_than_noise() -> None:
    random = np.random.default_rng(0)
    noise, channels = random.random((512, 512)) < 0.5, np.broadcast_to(random.random(512) < 0.5, (512, 512))
    frame, sizes = Frame.fit(512, 512, (1, 1)), []
    for bits in (noise, channels):
        words = pack(np.ascontiguousarray(bits))
        shown = encode_pictures({"a": draw(frame, {"active": words}, kept=words, active=words)}, 10**6)["a"]
        assert (decode(shown)[0] == bits).all()
        sizes.append(len(shown["cells"]))
    assert 20 * sizes[1] < sizes[0] < 512 * 512 / 4


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**16))
def test_halving_keeps_sums(outputs: int, inputs: int, size: int, seed: int) -> None:
    bits = np.random.default_rng(seed).random((outputs, inputs * size * size)) < 0.5
    words = pack(bits)
    picture: Picture = draw(Frame(outputs, inputs, (size, size), (1, 1)), {"active": words}, kept=words, active=words)
    dead = picture.dead_rows.sum(), picture.dead_columns.sum()
    while max(picture.frame.grid) > 1:
        picture = picture.halve()
        assert picture.counts["active"].sum() == bits.sum()
        assert (picture.dead_rows.sum(), picture.dead_columns.sum()) == dead
        assert picture.frame.cell[0] % size == picture.frame.cell[1] % size == 0


def test_wide_counts_have_wide_types() -> None:
    bits = np.ones((600, 300), bool)
    words = pack(bits)
    for cell, expected in (((8, 8), "u1"), ((16, 16), "u2"), ((1024, 512), "u4")):
        picture = draw(Frame(600, 300, (1, 1), cell), {"active": words}, kept=words, active=words)
        (shown,) = encode_pictures({"a": picture}).values()
        assert shown["type"] == expected
        assert decode(shown).sum() == bits.size


def test_an_empty_layer() -> None:
    words = np.zeros((3, 1), np.uint64)
    (shown,) = encode_pictures({"a": draw(Frame(3, 4, (1, 1), (1, 1)), {}, kept=words, active=words)}).values()
    assert shown["kinds"] == []
    assert decode(shown).size == 0
    assert shown["dead_rows"] == [1, 1, 1]
