"""The brute-force oracle on networks small enough to solve by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effsparse_cli.graph import layers, windows
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Layer
from effsparse_cli.paths import find_paths
from tests.oracle import Fates, oracle


def weight(b: Builder, name: str, kept: Sequence[object]) -> int:
    array = np.array(kept, dtype=bool)
    return b.weight(Layer(name, "linear", array.shape, lambda: array))


def counts(fates: Fates, layer: str) -> dict[str, int]:
    return {kind: sum(values) for kind, values in fates[layer].items() if any(values)}


def flags(fates: Fates, layer: str, kind: str) -> list[int]:
    return [int(value) for value in fates[layer][kind]]


def test_figure_1_of_the_paper() -> None:
    b = Builder()
    x = b.source("x", (1, 3))
    x = b.contract(x, weight(b, "first", [[1, 1, 1], [0, 0, 1], [0, 0, 1]]))
    x = b.contract(x, weight(b, "second", [[1, 0, 0], [0, 1, 1], [0, 0, 0]]))
    x = b.contract(x, weight(b, "third", [[1, 0, 1]]))
    fates = oracle(b.finish([x]))
    total = {kind: sum(sum(fates[layer][kind]) for layer in fates) for kind in ("kept", "active")}
    assert total == {"kept": 10, "active": 5}
    assert counts(fates, "first") == {"kept": 5, "active": 3, "no_output": 2}
    assert counts(fates, "second") == {"kept": 3, "active": 1, "no_output": 2}
    assert counts(fates, "third") == {"kept": 2, "active": 1, "no_input": 1}


def test_both_ends_dead() -> None:
    b = Builder()
    x = b.contract(b.source("x", (1, 1)), weight(b, "first", [[1], [0]]))
    y = b.contract(x, weight(b, "second", [[1, 0], [0, 1]]))
    fates = oracle(b.finish([b.contract(y, weight(b, "third", [[1, 0]]))]))
    assert flags(fates, "second", "active") == [1, 0, 0, 0]
    assert flags(fates, "second", "both") == [0, 0, 0, 1]


def test_gate_with_a_pruned_branch_passes() -> None:
    b = Builder()
    x = b.contract(b.source("x", (1, 2)), weight(b, "before", [[1, 0], [0, 1]]))
    gate = b.join(b.contract(x, weight(b, "branch", [[0, 0], [1, 0]])), keeps_zero=False)
    fates = oracle(b.finish([b.times(x, gate)]))
    assert flags(fates, "before", "active") == [1, 0, 0, 1]
    assert flags(fates, "branch", "active") == [0, 0, 1, 0]


def test_gate_that_keeps_zero_blocks() -> None:
    b = Builder()
    x = b.contract(b.source("x", (1, 2)), weight(b, "before", [[1, 0], [0, 1]]))
    gate = b.contract(x, weight(b, "branch", [[0, 0], [1, 0]]))
    fates = oracle(b.finish([b.times(x, gate)]))
    assert flags(fates, "before", "active") == [1, 0, 0, 1]
    fates = oracle(b.finish([b.slice(b.times(x, gate), 1, 0, 1)]))
    assert counts(fates, "before") == {"kept": 2, "no_output": 2}


def test_dead_query_column_kills_only_the_key_column() -> None:
    b = Builder()
    x = b.source("x", (2, 2))
    q = b.contract(x, weight(b, "q", [[1, 1], [0, 0]]))
    k = b.contract(x, weight(b, "k", [[1, 0], [1, 1]]))
    v = b.contract(x, weight(b, "v", [[1, 0], [0, 1]]))
    fates = oracle(b.finish([layers.attention(b, q, k, v)]))
    assert flags(fates, "k", "active") == [1, 0, 0, 0]
    assert flags(fates, "k", "no_output") == [0, 0, 1, 1]
    assert flags(fates, "v", "active") == [1, 0, 0, 1]


def test_values_pass_uniform_attention() -> None:
    b = Builder()
    x = b.source("x", (2, 1))
    q, k, v = (b.contract(x, weight(b, name, [[kept]])) for name, kept in (("q", 0), ("k", 1), ("v", 1)))
    fates = oracle(b.finish([layers.attention(b, q, k, v)]))
    assert counts(fates, "k") == {"kept": 1, "no_output": 1}
    assert counts(fates, "v") == {"kept": 1, "active": 1}


def test_layer_norm_spreads_and_rms_norm_does_not() -> None:
    for norm, active in ((layers.layer_norm, 2), (layers.rms_norm, 1)):
        b = Builder()
        x = b.contract(b.source("x", (1, 1)), weight(b, "before", [[1], [0]]))
        shift = () if norm is layers.rms_norm else (None,)
        x = norm(b, x, (-1,), None, *shift)
        fates = oracle(b.finish([b.contract(x, weight(b, "after", [[1, 1]]))]))
        assert sum(fates["after"]["active"]) == active


def test_3x3_kernel_on_a_1x1_map_has_8_of_9_in_the_padding() -> None:
    b = Builder()
    axis = windows.sliding(1, 3, before=1, after=1)
    x = b.contract(b.source("x", (1, 1, 1, 1)), weight(b, "conv", np.ones((1, 1, 3, 3)).tolist()), (axis, axis))
    fates = oracle(b.finish([x]))
    assert counts(fates, "conv") == {"kept": 9, "active": 1, "padding": 8}
    assert fates["conv"]["active"].index(True) == 4


def test_connection_fed_only_by_a_bias_is_a_carrier() -> None:
    b = Builder()
    x = b.contract(b.source("x", (1, 1)), weight(b, "before", [[1], [0], [0]]))
    x = layers.affine(b, x, shift=np.array([False, True, False]), axis=-1)
    fates = oracle(b.finish([b.contract(x, weight(b, "after", [[1, 1, 1]]))]))
    assert flags(fates, "after", "active") == [1, 0, 0]
    assert flags(fates, "after", "no_input") == [0, 1, 1]
    assert flags(fates, "after", "carrier") == [0, 1, 0]


def test_zero_scale_cuts_its_channel() -> None:
    b = Builder()
    x = b.contract(b.source("x", (1, 2)), weight(b, "before", [[1, 0], [0, 1]]))
    x = layers.affine(b, x, scale=np.array([True, False]), axis=-1)
    fates = oracle(b.finish([b.contract(x, weight(b, "after", [[1, 1]]))]))
    assert flags(fates, "before", "no_output") == [0, 0, 0, 1]
    assert flags(fates, "after", "no_input") == [0, 1]


def test_groups_separate_channels() -> None:
    b = Builder()
    x = b.contract(b.source("x", (1, 2)), weight(b, "before", [[1, 1], [0, 0]]))
    x = b.contract(x, weight(b, "grouped", [[1], [1], [1], [1]]), (), 2)
    fates = oracle(b.finish([x]))
    assert flags(fates, "grouped", "active") == [1, 1, 0, 0]
    assert flags(fates, "grouped", "no_input") == [0, 0, 1, 1]


def test_shared_weight_is_active_if_any_use_is() -> None:
    b = Builder()
    x = b.source("x", (1, 1))
    shared = Layer("shared", "linear", (1, 1), lambda: np.ones((1, 1), dtype=bool))
    dead = b.contract(b.constant(False, (1, 1)), b.weight(shared))
    fates = oracle(b.finish([b.join(dead, b.contract(x, b.weight(shared)))]))
    assert counts(fates, "shared") == {"kept": 1, "active": 1}
    fates = oracle(b.finish([dead]))
    assert counts(fates, "shared") == {"kept": 1, "padding": 1}


def test_recurrent_weight_needs_a_second_step() -> None:
    w = {name: Layer(name, "rnn", (1, 1), lambda: np.ones((1, 1), dtype=bool)) for name in ("w_x", "w_h")}
    for steps, expected in ((1, {"kept": 1, "no_input": 1}), (2, {"kept": 1, "active": 1})):
        b = Builder()
        xs, h = b.source("x", (steps, 1, 1)), b.constant(False, (1, 1))
        final = layers.rnn(
            b, xs, h, w_x=lambda b: b.weight(w["w_x"]), w_h=lambda b: b.weight(w["w_h"]), bias=None, reverse=False
        )[0]
        fates = oracle(b.finish([final]))
        assert counts(fates, "w_h") == expected


def test_any_number_of_steps_is_the_fixed_point() -> None:
    """The states shift by one in each step, so an input of the first state reaches the last."""
    b = Builder()
    start = b.contract(b.source("x", (1, 1)), weight(b, "before", [[1], [0], [0]]))
    shift = Layer("shift", "linear", (3, 3), lambda: np.eye(3, k=-1, dtype=bool))
    final = b.scan(lambda body, s: [body.contract(s[0], body.weight(shift))], [start])[0]
    fates = oracle(b.finish([b.slice(final, 1, 2, 3)]))
    assert counts(fates, "before") == {"kept": 1, "active": 1}
    assert counts(fates, "shift") == {"kept": 2, "active": 2}


def test_unknown_operator_connects_everything() -> None:
    b = Builder()
    x = b.contract(b.source("x", (1, 2)), weight(b, "before", [[1, 0]]))
    y = b.opaque("unknown", [x, weight(b, "inside", [1, 0, 1])], (2,))
    fates = oracle(b.finish([b.slice(y, 0, 0, 1)]))
    assert counts(fates, "before") == {"kept": 1, "active": 1}
    assert counts(fates, "inside") == {"kept": 2, "active": 2}


def test_weight_in_an_unknown_operator_is_active_if_its_result_matters() -> None:
    """No input reaches the operator; its result is multiplied with a value that an input reaches."""
    b = Builder()
    made = b.opaque("unknown", [weight(b, "inside", [1, 0, 1])], (2,))
    unread = b.opaque("unknown", [weight(b, "unread", [1, 1])], (2,))
    y = b.times(b.source("x", (2,)), made)
    graph = b.finish([b.slice(b.concat([y, unread], 0), 0, 0, 1)])
    fates = oracle(graph)
    assert counts(fates, "inside") == {"kept": 2, "active": 2}
    assert counts(fates, "unread") == {"kept": 2, "no_output": 2}
    edges = find_paths(graph)
    assert edges["inside"].count("active") == edges["unread"].count("no_output") == 2
