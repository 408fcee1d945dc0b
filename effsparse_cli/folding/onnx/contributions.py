"""What connections of an ONNX model contribute: whether they can be removed by changing stored numbers, which they
cannot if the weight is computed, and what bias carriers add to the result of an op call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto

from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.decide import ConstantRange, measure_range, merge_ranges
from effsparse_cli.folding.onnx.run import Runner, run_one
from effsparse_cli.folding.onnx.wiring import WeightUse, Wiring
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import subgraphs
from effsparse_cli.formats.onnx.tensors.store import stored_mask, zeroed
from effsparse_cli.formats.onnx.tensors.stored import Array, Stored
from effsparse_cli.graph.primitives import Bools

COMPUTED = "the weight is computed from stored tensors, so one connection changes others"
ELSEWHERE = "the weight is stored in a subgraph, a function, or a sparse or packed form"
MASK_COMPUTED = "the weight's mask is computed"
OTHERWISE = "an operator uses the same tensor as ordinary numbers"
AN_OUTPUT = "the tensor is an output of the model itself"
AS_WEIGHT = ("Contract", "Weight", "Scan", "Opaque")
"""Primitives that count connections of a stored tensor."""


def why_fixed(wiring: Wiring, name: str | None, activity: LayerActivity) -> str:
    """Return why connections cannot be removed, or "" if they can; `name` is that of the stored tensor, if any."""
    stored = wiring.store.under(activity.layer.name)
    if stored is None or name is None:
        return COMPUTED
    if stored.repack is not None or name not in wiring.stored:
        return ELSEWHERE
    if any(stored_mask(known) is None for known in stored.altered if known.mask is not None):
        return MASK_COMPUTED
    if any(_is_operand(wiring, node, given) for node, given in wiring.uses(name)):
        return OTHERWISE
    if wiring.reaches_output(name):
        return AN_OUTPUT
    for given in {given for _, given in wiring.uses(name) if given != name}:
        try:
            parts = [_part_of(wiring, stored, name, given, mask) for mask in (activity.active, ~activity.active)]
            if not np.array_equal(parts[0] + parts[1], wiring.value(given, {})):
                return COMPUTED
        except Exception:  # an operator that cannot be evaluated, for whatever reason that onnx's reference gives
            return COMPUTED
    return ""


def _is_operand(wiring: Wiring, node: NodeProto, given: str) -> bool:
    """Whether the constant is not a weight here, but a bias or a summand. Nothing is known of unknown operators: the
    graph accounts for their weights."""
    operator = find_operator(node)
    if operator is None or any(True for _ in subgraphs(node)):
        return False
    if operator.contraction is not None:
        return given in node.input[operator.contraction.weight + 1 :]
    return not any(word in operator.primitives for word in AS_WEIGHT)


def _part_of(wiring: Wiring, stored: Stored, name: str, given: str, chosen: Bools) -> Array:
    """Evaluate a constant computed from a stored tensor, with all but the chosen elements of the tensor set to zero."""
    return wiring.value(given, {name: zeroed(stored, chosen)})


def observe(
    wiring: Wiring,
    running: ModelProto,
    folder: Path,
    watched: Sequence[tuple[WeightUse, LayerActivity]],
    drawn: Sequence[Mapping[str, Array]],
) -> list[ConstantRange]:
    """Return what bias carriers add at each of these op calls, over all drawn inputs. `running` is the model without
    unrunnable operators."""
    activations = list(dict.fromkeys(use.node.input[0] for use, _ in watched))
    runner = Runner(running, folder, activations)
    runs = [dict(zip(activations, runner(feeds), strict=True)) for feeds in drawn]
    return [
        merge_ranges([_measure(wiring, use, activity, values[use.node.input[0]]) for values in runs])
        for use, activity in watched
    ]


def _measure(wiring: Wiring, use: WeightUse, activity: LayerActivity, x: Array) -> ConstantRange:
    stored = wiring.store.under(activity.layer.name)
    assert stored is not None
    weight = _part_of(wiring, stored, use.stored, use.weight, activity.carrier)
    amount, magnitude = (run_one(use.node, [a, w], wiring.model) for a, w in ((x, weight), (np.abs(x), np.abs(weight))))
    axis = use.contraction.channel_axis % amount.ndim
    return measure_range(amount.astype(np.float64), magnitude.astype(np.float64), axis, activity.output)
