"""Open dimensions grow until the counts stop changing, and a note says why they stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from effsparse_cli.analysis import sizes
from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.sizes import Settled, depends_on_sizes, settle
from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.graph import windows
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer, OpenDimensions
from effsparse_cli.graph.primitives import Bools, Shape


def chain(kept: list[Bools], size: int, stride: int = 2) -> Graph:
    """Convolutions over one axis, each with padding that keeps what its stride leaves."""
    b = Builder()
    x, length = b.source("x", (1, kept[0].shape[1], size)), size
    for k, mask in enumerate(kept):
        taps = windows.sliding(
            length, mask.shape[2], stride=stride, dilation=1, before=mask.shape[2] // 2, after=mask.shape[2] // 2
        )
        length = taps.shape[1]
        weight = b.weight(Layer(f"conv{k}", "conv1d", mask.shape, partial(np.asarray, mask)))
        x = b.contract(x, weight, (taps,))
    return b.finish([x])


def opened(kept: list[Bools], start: int, accepts: int = 1 << 30) -> Settled | None:
    def shapes(factor: int) -> Mapping[str, Shape]:
        return {"x": (1, kept[0].shape[1], start * factor)}

    def read(wanted: Mapping[str, Shape]) -> Graph:
        tried.append(wanted["x"][2])
        if wanted["x"][2] > accepts:
            raise LoadError("too long")
        return chain(kept, wanted["x"][2])

    tried: list[int] = []
    return settle(replace(chain(kept, start), open_dimensions=OpenDimensions({'"time"': start}, shapes)), read)


def outer(layers: int) -> list[Bools]:
    """Only the first of nine taps is kept: each layer reads four positions further to the left."""
    mask = np.zeros((1, 1, 9), bool)
    mask[..., 0] = True
    return [mask] * layers


def test_sizes_double_until_two_doublings_change_nothing() -> None:
    found = opened(outer(3), 8)
    assert found is not None
    assert found.graph.input_shapes == found.shapes == {"x": (1, 1, 64)}
    assert (
        found.note == 'input shape 1x1x64: the open dimension "time" doubled from 8 until the counts stopped changing'
    )
    assert found.graph.notes[0] == found.note


def test_equal_counts_are_not_enough_while_windows_exceed_their_input() -> None:
    """All layers but the last keep the centre of their windows, so that 8, 16 and 32 steps give the same counts: the
    last tap of all reads padding until there are 128."""
    centre, last = np.zeros((1, 1, 9), bool), np.zeros((1, 1, 9), bool)
    centre[..., 4] = last[..., 4] = last[..., 8] = True
    found = opened([*[centre] * 4, last], 8)
    assert found is not None
    assert found.shapes["x"][2] >= 128
    assert not any(layer.counts.inactive for layer in analyze_graph(found.graph).layers)


def test_the_model_may_accept_no_larger_size() -> None:
    still = opened(outer(3), 8, accepts=16)
    assert still is not None
    assert still.note.endswith("doubled from 8 while the counts kept changing; the model accepts no larger size")
    assert still.shapes == {"x": (1, 1, 16)}
    first = opened(outer(3), 8, accepts=8)
    assert first is not None
    assert first.note == 'input shape 1x1x8: the model accepts no larger size of the open dimension "time"'


def test_a_size_at_which_an_operator_fails_is_not_accepted() -> None:
    """An index beyond the end of a table cannot be lowered, and becomes an unknown operator."""
    b = Builder()
    failing = b.finish([b.opaque("Gather", [b.source("x", (1, 1, 16))], (1, 1, 16))])
    opens = OpenDimensions({"t": 8}, lambda factor: {"x": (1, 1, 8 * factor)})
    found = settle(replace(chain(outer(3), 8), open_dimensions=opens), lambda shapes: failing)
    assert found is not None
    assert found.note == "input shape 1x1x8: the model accepts no larger size of the open dimension t"


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MOST", 16)
    found = opened(outer(3), 8)
    assert found is not None
    assert found.note.endswith("; no larger size was tried")


def test_a_size_at_which_everything_is_active_is_kept() -> None:
    assert opened([np.ones((2, 2, 3), bool)] * 2, 8) is None


def test_a_judge_replaces_the_counts() -> None:
    judged = []

    def judge(graph: Graph) -> int:
        judged.append(graph.input_shapes["x"][2])
        return min(judged[-1], 64)

    kept = [np.ones((2, 2, 3), bool)]
    opens = OpenDimensions({"t": 8}, lambda factor: {"x": (1, 2, 8 * factor)})
    found = settle(replace(chain(kept, 8), open_dimensions=opens), lambda shapes: chain(kept, shapes["x"][2]), judge)
    assert found is not None
    assert (judged, found.shapes) == ([8, 16, 32, 64, 128, 256], {"x": (1, 2, 64)})


def test_an_excluded_size_is_not_read() -> None:
    def shapes(factor: int) -> Mapping[str, Shape]:
        if factor > 1:
            raise UsageError("the program takes sizes up to 8")
        return {"x": (1, 1, 8)}

    graph = replace(chain(outer(3), 8), open_dimensions=OpenDimensions({"t": 8}, shapes))
    found = settle(graph, lambda wanted: pytest.fail(f"read at {wanted}"))
    assert found is not None
    assert "accepts no larger size" in found.note


def test_counts_depend_on_sizes_only_through_neighbours() -> None:
    assert depends_on_sizes(chain(outer(1), 8))
    b = Builder()
    x = b.source("x", (1, 8, 4))
    assert not depends_on_sizes(b.finish([x]))
