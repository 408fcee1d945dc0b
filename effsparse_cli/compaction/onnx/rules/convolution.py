"""Convolutions: channels correspond as in a linear layer. A grouped convolution can lose whole groups, and channels
that have the same place in every group."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.positions import Ids, PositionFacts, ValuePositions, Work


def conv(op: OpPositions, transposed: bool = False) -> ValuePositions:
    x, weight, facts, groups = op.x(0), op.x(1), op.facts, op.attr("group", 1)
    if weight.array is None:
        raise NoRuleError
    kept = (weight.array != 0).any(axis=tuple(range(2, len(weight.axes))))
    nonzero = kept.reshape(groups, weight.shape[0] // groups, weight.shape[1])
    nonzero = nonzero.transpose(0, 2, 1) if transposed else nonzero
    _, outs, ins = nonzero.shape
    group, read = split_channels(facts, x.axes[1], groups, ins)
    made = facts.axis(outs)
    channels = merge_channels(facts, group, made)
    if transposed:
        facts.join(weight.axes[0], x.axes[1])
        facts.join(weight.axes[1], made)
    else:
        facts.join(weight.axes[0], channels)
        facts.join(weight.axes[1], read)
    facts.need(*weight.axes[2:], *x.axes[2:])
    nonzero = nonzero & ~x.zero(1).reshape(groups, 1, ins)
    facts.terms(nonzero, (group, made, read), (2,))
    zero = ~nonzero.any(axis=2).reshape(-1)
    bias = op.get(2)
    if bias is not None:
        facts.join(bias.axes[0], channels)
        zero = zero & bias.zero(0)
    spatial = [facts.axis(n) for n in op.shape[2:]]
    facts.need(*spatial)
    places = x.shape[2:] if transposed else op.shape[2:]
    factor = math.prod(places) * math.prod(weight.shape[2:])
    facts.works.append(Work(weight.stored, (x.axes[0], group, made, read), factor, group))
    zeros = (x.zero(0) if bias is None else np.zeros(len(x.axes[0]), bool), zero)
    return ValuePositions((x.axes[0], channels, *spatial), (*zeros, *(np.zeros(n, bool) for n in op.shape[2:])))


def conv_transpose(op: OpPositions) -> ValuePositions:
    return conv(op, transposed=True)


def split_channels(facts: PositionFacts, channels: Ids, groups: int, size: int) -> tuple[Ids, Ids]:
    """Return the axis as two: the group, and the place in the group."""
    if groups == 1:
        return _single(facts), channels
    if size == 1:
        return channels, _single(facts)
    group, place = facts.axis(groups), facts.axis(size)
    facts.merged(channels, group, place)
    return group, place


def merge_channels(facts: PositionFacts, group: Ids, place: Ids) -> Ids:
    if len(group) == 1:
        return place
    if len(place) == 1:
        facts.need(place)
        return group
    whole = facts.axis(len(group) * len(place))
    facts.merged(whole, group, place)
    return whole


def _single(facts: PositionFacts) -> Ids:
    one = facts.axis(1)
    facts.need(one)
    return one
