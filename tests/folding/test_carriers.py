"""What the graph says for a repair, on graphs by hand: carriers, rows of them, and outputs that nothing reads."""

from __future__ import annotations

import numpy as np

from effsparse_cli.folding.carriers import Facts, Target, find_facts
from effsparse_cli.folding.decide import NOT_UNIFORM, Home, Measured, decide
from effsparse_cli.folding.uniform import Spread, constants, measure, union
from effsparse_cli.graph import windows
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools

EPSILON = float(np.finfo(np.float64).eps)


def layer(name: str, kept: Bools) -> Layer:
    return Layer(name, "linear", kept.shape, lambda: kept)


def network() -> Graph:
    """Two inputs, three hidden of which the second has a bias and no input, two outputs of which one is thrown away."""
    b = Builder()
    first = np.array([[1, 1], [0, 0], [0, 1]], bool)
    x = b.contract(b.source("x", (1, 2)), b.weight(layer("first", first)))
    x = b.join(x, b.constant(np.array([False, True, False])))
    y = b.contract(x, b.weight(layer("second", np.ones((2, 3), bool))))
    return b.finish([b.slice(y, 1, 0, 1)])


def test_carriers_and_dead_channels() -> None:
    facts = find_facts(network())
    second = facts["second"]
    np.testing.assert_array_equal(second.carrier, [[0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(second.active, [[1, 0, 1], [0, 0, 0]])
    assert second.by_row
    assert second.target is not None
    np.testing.assert_array_equal(second.target.dead, [False, True])
    np.testing.assert_array_equal(second.rows(np.array([True, False])), second.carrier)
    assert not second.rows(np.array([False, True])).any()
    first = facts["first"].target
    assert first is not None
    assert not first.dead.any()


def test_a_weight_that_is_used_twice_has_no_target_of_its_own() -> None:
    b = Builder()
    shared = layer("shared", np.ones((2, 2), bool))
    x = b.contract(b.source("x", (1, 2)), b.weight(shared))
    facts = find_facts(b.finish([b.contract(x, b.weight(shared))]))["shared"]
    assert facts.target is None
    assert not facts.by_row


def test_constants_are_measured_where_positions_matter() -> None:
    amount = np.array([[[1.0, 1.0, 9.0], [2.0, 2.0, 2.0]]])
    seen = Target((1, 2, 3), np.array([[[True, True, False]]]), 1)
    value, uniform = constants(measure(amount, np.abs(amount), 1, seen), EPSILON)
    np.testing.assert_array_equal(value, [1, 2])
    assert uniform.all()
    assert not constants(measure(amount, np.abs(amount), 1, None), EPSILON)[1][0]


def test_what_differs_between_inputs_is_no_constant() -> None:
    amounts = [np.array([[1.0, 2.0]]), np.array([[1.0, 2.5]])]
    _, uniform = constants(union([measure(a, np.abs(a), 1, None) for a in amounts]), EPSILON)
    np.testing.assert_array_equal(uniform, [True, False])


def test_rounding_is_no_difference() -> None:
    one = Spread(np.array([0.3]), np.array([0.3 + 2e-16]), np.array([1.0]))
    assert constants(one, EPSILON)[1].all()
    assert not constants(Spread(one.low, one.low + 1e-9, one.scale), EPSILON)[1].any()


def test_infinite_amounts_are_no_constants() -> None:
    endless = np.array([np.inf])
    value, uniform = constants(Spread(endless, endless, endless), EPSILON)
    assert (value.tolist(), uniform.tolist()) == ([0.0], [False])


def facts_of_convolution() -> Facts:
    """A dead channel with a bias before a padded convolution: its taps at the border see padding."""
    b = Builder()
    kept = np.array([[[1]], [[0]]], bool)
    x = b.contract(b.source("x", (1, 1, 3)), b.weight(layer("first", kept)), [windows.sliding(3, 1)])
    x = b.join(x, b.constant(np.array([False, True]).reshape(1, 2, 1)))
    weight = b.weight(layer("second", np.ones((2, 2, 3), bool)))
    table = windows.sliding(3, 3, before=1, after=1)
    return find_facts(b.finish([b.contract(x, weight, [table])]))["second"]


def test_rows_are_decided_one_by_one() -> None:
    facts = facts_of_convolution()
    assert int(facts.carrier.sum()) == 6
    spread = Spread(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([1.0, 3.0]))
    home = Home("bias", np.arange(2))
    decision = decide(facts, [Measured(spread, home)], EPSILON)
    assert decision.gone[0].sum() == 3
    assert not decision.gone[1].any()
    ((place, amount),) = decision.amounts
    assert place is home
    np.testing.assert_array_equal(amount, [1, 0])
    assert decision.reason == NOT_UNIFORM


def test_without_a_home_only_nothing_can_go() -> None:
    spread = Spread(np.array([0.0, 2.0]), np.array([0.0, 2.0]), np.array([0.0, 2.0]))
    decision = decide(facts_of_convolution(), [Measured(spread, None, "no bias")], EPSILON)
    assert decision.gone[0].sum() == 3
    assert not decision.gone[1].any()
    assert (decision.amounts, decision.reason) == ((), "no bias")
