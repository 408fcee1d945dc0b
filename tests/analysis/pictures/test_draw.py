"""Pictures against the masks that they are drawn from, at every resolution."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.pictures import draw as draw_module
from effsparse_cli.analysis.pictures.draw import KINDS, draw
from effsparse_cli.analysis.pictures.picture import MOST_CELLS, Frame, Picture
from effsparse_cli.errors import NothingToMeasureError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.kernel.bits import pack
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.layouts import find_layouts
from tests.analysis.networks import MODULES, module_graph
from tests.witnesses.graphs import graphs
from tests.witnesses.wide_graphs import wide_graphs

unhurried = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def by_hand(frame: Frame, connections: Bools) -> dict[tuple[int, int], int]:
    """Count connections [outputs, inputs, kernel rows, kernel columns] cell by cell."""
    found: dict[tuple[int, int], int] = {}
    for output, input, row, column in np.argwhere(connections).tolist():
        place = output * frame.kernel[0] + row, input * frame.kernel[1] + column
        cell = place[0] // frame.cell[0], place[1] // frame.cell[1]
        found[cell] = found.get(cell, 0) + 1
    return found


def check_cells(picture: Picture, masks: Mapping[str, Bools]) -> None:
    frame = picture.frame
    for kind, mask in masks.items():
        counts = picture.counts.get(kind, np.zeros(frame.grid, np.uint8))
        assert counts.shape == frame.grid
        full = mask.reshape(frame.outputs, frame.inputs, *frame.kernel)
        assert {tuple(at): int(counts[tuple(at)]) for at in np.argwhere(counts).tolist()} == by_hand(frame, full)


def check_neurons(picture: Picture, kept: Bools, active: Bools) -> None:
    """`kept` and `active` are [groups, outputs of a group, inputs, taps]."""
    dead = ~active.any(axis=(2, 3)).reshape(-1)
    assert picture.dead_rows.sum() == dead.sum()
    assert picture.dead_columns.sum() == (~active.any(axis=(0, 1, 3))).sum()
    for output in np.flatnonzero(dead).tolist():
        assert picture.dead_rows[output * picture.frame.kernel[0] // picture.frame.cell[0]]
    for fan, axes in ((picture.fan_in, (2, 3)), (picture.fan_out, (1, 3))):
        for mask, found in ((kept, fan.kept), (active, fan.active)):
            numbers = mask.sum(axis=axes).reshape(-1)
            edges = [*fan.edges, np.inf]
            expected = [((low <= numbers) & (numbers < high)).sum() for low, high in pairwise(edges)]
            assert found.tolist() == expected


@st.composite
def drawings(draw: st.DrawFn) -> tuple[Frame, Bools]:
    """Draw a frame with cells of any size, and [groups, outputs of a group, inputs, kernel rows, kernel columns]."""
    groups, rows, inputs, high, wide = (draw(st.integers(1, most)) for most in (3, 9, 70, 3, 3))
    cell = draw(st.sampled_from([None, *((a, b) for a in (1, 2, 4, 16) for b in (1, 2, 8, 64))]))
    size = (1, 1) if cell is None else (cell[0] * high, cell[1] * wide)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    connections = random.random((groups, rows, inputs, high, wide)) < draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    return Frame(groups * rows, inputs, (high, wide), size), connections


@given(drawings(), st.sampled_from([1, 50, 1 << 20]))
def test_cells_and_neurons(drawing: tuple[Frame, Bools], piece: int) -> None:
    frame, kept = drawing
    active = kept & (np.arange(kept.size).reshape(kept.shape) % 3 > 0)
    flat = {kind: mask.reshape(frame.outputs, -1) for kind, mask in (("active", active), ("both", kept & ~active))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw_module, "PIECE", piece)
        words = {kind: pack(mask) for kind, mask in flat.items()}
        whole = pack(kept.reshape(frame.outputs, -1))
        picture = draw(frame, words, kept=whole, active=words["active"], groups=len(kept))
    taps = *kept.shape[:3], -1
    while True:
        check_cells(picture, flat)
        check_neurons(picture, kept.reshape(taps), active.reshape(taps))
        if max(picture.frame.grid) <= 1:
            break
        before, picture = picture, picture.halve()
        assert max(picture.frame.grid) < max(before.frame.grid) or before.frame.shows_taps


def check_graph(graph: Graph) -> None:
    try:
        found = analyze_graph(graph, count_embeddings=True, pictures=True)
    except NothingToMeasureError:
        return
    edges, layouts = find_paths(graph), find_layouts(graph)
    assert list(found.pictures) == [layer.name for layer in found.layers]
    for layer in found.layers:
        picture, counts, layout = found.pictures[layer.name], layer.counts, layouts[layer.name]
        frame = picture.frame
        assert frame.outputs * frame.inputs * frame.taps == counts.connections
        assert max(frame.grid) <= MOST_CELLS
        expected = {kind: getattr(counts, "bias_carriers" if kind == "carrier" else kind) for kind in KINDS}
        assert {kind: int(cells.sum()) for kind, cells in picture.counts.items()} == {
            k: n for k, n in expected.items() if n
        }
        masks = {kind: edges[layer.name].mask(kind) for kind in KINDS}
        check_cells(picture, {kind: layout.read(mask) if layout.rows else mask for kind, mask in masks.items()})
        if len(edges[layer.name].uses) == 1 and frame.outputs == layer.neurons:
            assert picture.dead_rows.sum() == layer.dead_neurons
        assert picture.fan_in.kept.sum() == picture.fan_in.active.sum() == frame.outputs


@unhurried
@given(graphs())
def test_generated_graphs(graph: Graph) -> None:
    check_graph(graph)


@settings(unhurried, max_examples=30)
@given(wide_graphs())
def test_wide_graphs(graph: Graph) -> None:
    check_graph(graph)


@pytest.mark.parametrize("density", [0.15, 0.5, 1.0])
@pytest.mark.parametrize("name", MODULES)
def test_torch_modules(name: str, density: float) -> None:
    check_graph(module_graph(name, density))


def test_orientation() -> None:
    """Rows are outputs, however a weight is stored."""
    shapes = {
        "conv2d": [(6, 3, (3, 2)), (4, 6, (3, 3))],
        "conv1d": [(6, 2, (1, 5)), (4, 3, (1, 3))],
        "conv3d": [(3, 2, (6, 1))],
        "transposed": [(6, 2, (3, 3)), (2, 6, (2, 2))],
        "stored transposed": [(7, 5, (1, 1)), (2, 7, (1, 1))],
        "shared": [(4, 2, (3, 3))],
    }
    for name, expected in shapes.items():
        pictures = analyze_graph(module_graph(name, 1.0), pictures=True).pictures
        assert [picture.frame[:3] for picture in pictures.values()] == expected


@pytest.mark.parametrize(
    ("name", "inputs"), [("grouped", [4, 8]), ("transposed", [4, 6]), ("shared", [4]), ("conv1d", [2, 6])]
)
def test_fan_out_is_that_of_all_groups(name: str, inputs: list[int]) -> None:
    pictures = analyze_graph(module_graph(name, 0.5), pictures=True).pictures.values()
    assert [picture.fan_out.kept.sum() for picture in pictures] == inputs


def test_other_engines_draw_the_same() -> None:
    for name in ("conv2d", "grouped", "shared", "sequence"):
        graph = module_graph(name, 0.4)
        first, second = (
            analyze_graph(graph, engine=engine, pictures=True).pictures for engine in ("bits", "saturated")
        )
        for layer, picture in first.items():
            other = second[layer]
            assert picture.frame == other.frame
            assert {kind: counts.tolist() for kind, counts in picture.counts.items()} == {
                kind: counts.tolist() for kind, counts in other.counts.items()
            }
            assert picture.fan_out.active.tolist() == other.fan_out.active.tolist()
            assert (picture.positions is None) == (other.positions is None)
            if picture.positions is not None and other.positions is not None:
                assert (picture.positions.counts == other.positions.counts).all()


def test_pictures_are_drawn_on_request_only() -> None:
    found = analyze_graph(module_graph("linear", 0.5))
    assert not found.pictures
    assert found.network is None
