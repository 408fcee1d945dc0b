"""Test carriers, dead channels and decisions on small hand-made graphs."""

from __future__ import annotations

import numpy as np

from effsparse_cli.folding.carriers import LayerActivity, OperatorOutput, find_activity
from effsparse_cli.folding.decide import (
    NOT_UNIFORM,
    BiasSlot,
    ConstantRange,
    MeasuredUse,
    decide,
    find_constants,
    measure_range,
    merge_ranges,
)
from effsparse_cli.graph import windows
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools

EPSILON = float(np.finfo(np.float64).eps)


def layer(name: str, kept: Bools) -> Layer:
    return Layer(name, "linear", kept.shape, lambda: kept)


def network() -> Graph:
    """Build two inputs, three hidden units of which the second has only a bias, and two outputs of which one is
    dropped."""
    b = Builder()
    first = np.array([[1, 1], [0, 0], [0, 1]], bool)
    x = b.contract(b.source("x", (1, 2)), b.weight(layer("first", first)))
    x = b.join(x, b.constant(np.array([False, True, False])))
    y = b.contract(x, b.weight(layer("second", np.ones((2, 3), bool))))
    return b.finish([b.slice(y, 1, 0, 1)])


def test_carriers_and_dead_channels() -> None:
    activity = find_activity(network())
    second = activity["second"]
    np.testing.assert_array_equal(second.carrier, [[0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(second.active, [[1, 0, 1], [0, 0, 0]])
    assert second.by_channel
    assert second.output is not None
    np.testing.assert_array_equal(second.output.dead, [False, True])
    np.testing.assert_array_equal(second.carriers_in(np.array([True, False])), second.carrier)
    assert not second.carriers_in(np.array([False, True])).any()
    first = activity["first"].output
    assert first is not None
    assert not first.dead.any()


def test_a_weight_that_is_used_twice_has_no_single_output() -> None:
    b = Builder()
    shared = layer("shared", np.ones((2, 2), bool))
    x = b.contract(b.source("x", (1, 2)), b.weight(shared))
    activity = find_activity(b.finish([b.contract(x, b.weight(shared))]))["shared"]
    assert activity.output is None
    assert not activity.by_channel


def test_constants_are_measured_where_positions_matter() -> None:
    amount = np.array([[[1.0, 1.0, 9.0], [2.0, 2.0, 2.0]]])
    seen = OperatorOutput((1, 2, 3), np.array([[[True, True, False]]]), 1)
    value, uniform = find_constants(measure_range(amount, np.abs(amount), 1, seen), EPSILON)
    np.testing.assert_array_equal(value, [1, 2])
    assert uniform.all()
    assert not find_constants(measure_range(amount, np.abs(amount), 1, None), EPSILON)[1][0]


def test_amounts_that_differ_between_inputs_are_not_constant() -> None:
    amounts = [np.array([[1.0, 2.0]]), np.array([[1.0, 2.5]])]
    _, uniform = find_constants(merge_ranges([measure_range(a, np.abs(a), 1, None) for a in amounts]), EPSILON)
    np.testing.assert_array_equal(uniform, [True, False])


def test_rounding_is_not_a_difference() -> None:
    one = ConstantRange(np.array([0.3]), np.array([0.3 + 2e-16]), np.array([1.0]))
    assert find_constants(one, EPSILON)[1].all()
    assert not find_constants(ConstantRange(one.low, one.low + 1e-9, one.scale), EPSILON)[1].any()


def test_infinite_amounts_are_not_constants() -> None:
    endless = np.array([np.inf])
    value, uniform = find_constants(ConstantRange(endless, endless, endless), EPSILON)
    assert (value.tolist(), uniform.tolist()) == ([0.0], [False])


def activity_of_convolution() -> LayerActivity:
    """A dead channel with a bias before a padded convolution: its taps at the border read padding."""
    b = Builder()
    kept = np.array([[[1]], [[0]]], bool)
    x = b.contract(b.source("x", (1, 1, 3)), b.weight(layer("first", kept)), [windows.sliding(3, 1)])
    x = b.join(x, b.constant(np.array([False, True]).reshape(1, 2, 1)))
    weight = b.weight(layer("second", np.ones((2, 2, 3), bool)))
    table = windows.sliding(3, 3, before=1, after=1)
    return find_activity(b.finish([b.contract(x, weight, [table])]))["second"]


def test_channels_are_decided_one_by_one() -> None:
    activity = activity_of_convolution()
    assert int(activity.carrier.sum()) == 6
    measured = ConstantRange(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([1.0, 3.0]))
    slot = BiasSlot("bias", np.arange(2))
    decision = decide(activity, [MeasuredUse(measured, slot)], EPSILON)
    assert decision.removed[0].sum() == 3
    assert not decision.removed[1].any()
    ((place, amount),) = decision.amounts
    assert place is slot
    np.testing.assert_array_equal(amount, [1, 0])
    assert decision.reason == NOT_UNIFORM


def test_without_a_slot_only_zero_constants_are_removed() -> None:
    measured = ConstantRange(np.array([0.0, 2.0]), np.array([0.0, 2.0]), np.array([0.0, 2.0]))
    decision = decide(activity_of_convolution(), [MeasuredUse(measured, None, "no bias")], EPSILON)
    assert decision.removed[0].sum() == 3
    assert not decision.removed[1].any()
    assert (decision.amounts, decision.reason) == ((), "no bias")
