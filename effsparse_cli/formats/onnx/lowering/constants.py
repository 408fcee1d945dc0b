"""Op calls whose inputs are all constants: the call in, the constant values of its outputs out. Data movement and
elementwise arithmetic keep track of the stored elements; everything else gives new tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx.defs
from onnx import FunctionProto, NodeProto, OperatorSetIdProto

from effsparse_cli.errors import EffsparseError, LoadError
from effsparse_cli.formats.onnx.lowering.mixed_weights import note_mixing
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, Value, constant_value
from effsparse_cli.formats.onnx.operators import Operator, find_operator
from effsparse_cli.formats.onnx.proto import label
from effsparse_cli.formats.onnx.tensors.stored import Array, Origin, may_be_learned, nonzero
from effsparse_cli.graph.primitives import Shape

STRING = 8
"""The data type of text."""

MOST_PENDING = 8
"""Operators whose evaluation is deferred until the result is needed. Longer chains are evaluated at once, and held."""


def evaluate_call(call: OpCall, operator: Operator) -> list[Value] | None:
    """Return the outputs, or None if the call is not or cannot be evaluated."""
    if operator.constants == "not evaluated":
        return None
    try:
        results = _evaluate(call, operator)
        for i, result in enumerate(results or ()):
            note_mixing(call, result, i)
    except EffsparseError:
        raise
    except Exception:  # the reference raises whatever numpy does
        return None
    return None if results is None else list(results)


def _evaluate(call: OpCall, operator: Operator) -> list[ConstantValue] | None:
    """Return None for a call that has text in it, or would take too long."""
    inputs = [value if isinstance(value, ConstantValue) else None for value in call.inputs]
    size = math.prod(call.result_extent(broadcast=operator.constants in ("elementwise", "first")))
    if operator.most_evaluated is not None and size > operator.most_evaluated:
        return None
    if any(v.text for v in inputs if v is not None) or call.attr("to") == STRING:
        return None
    budget = call.scope.state.budget
    budget.allow(call.node, size, operator.multiplications(call) if operator.multiplications is not None else 0)
    followed = _followed(call, operator, inputs)
    if followed is None:
        derived = any(v is not None and v.derived and may_be_learned(v.array.dtype, v.shape) for v in inputs)
        results = _computed(call, _arrays(inputs))
        budget.hold(sum(array.size for array in results))
        return [constant_value(array, derived) for array in results]
    pending = max((v.depth for v in inputs if v is not None), default=0) + 1
    for i, value in enumerate(followed):
        value.depth = pending
        if value.origin is not None and not value.origin.strided:
            budget.hold(size)
        if pending > MOST_PENDING:
            budget.hold(math.prod(value.shape))
            followed[i] = value.settled()
    return followed


def joined(call: OpCall, values: Sequence[ConstantValue], axis: int, stacked: bool) -> ConstantValue:
    """Concatenate or stack the constants of a sequence, or of the iterations of a loop."""
    size = sum(math.prod(value.shape) for value in values)
    call.scope.state.budget.allow(call.node, size)
    call.scope.state.budget.hold(size)
    arrays = [value.array for value in values]
    array = np.stack(arrays, axis) if stacked else np.concatenate(arrays, axis)
    return constant_value(array, any(value.derived for value in values))


def _followed(call: OpCall, operator: Operator, inputs: list[ConstantValue | None]) -> list[ConstantValue] | None:
    """Return results that have stored elements of the inputs, moved or changed one by one; None if there are none."""
    first = inputs[0] if inputs and inputs[0] is not None and inputs[0].origin is not None else None
    if first is not None and operator.can_follow is not None and not operator.can_follow(call, first):
        first = None
    single = len(call.node.output) == 1
    match operator.constants:
        case "elementwise":
            found = _elementwise(call, operator, inputs)
        case "concatenated":
            found = _concatenated(inputs, call.attr("axis", 1))
        case "first" if first is not None:
            found = first.altered(partial(_later, call, inputs))
        case "moved" | "split" if first is not None and (single or operator.constants == "split"):
            rest = _arrays(inputs[1:])
            return [first.moved(partial(_part, call, rest, i)) for i in range(len(call.node.output))]
        case _:
            found = None
    return None if found is None else [found]


def _arrays(inputs: Sequence[ConstantValue | None]) -> list[Array | None]:
    return [v.array if v is not None else None for v in inputs]


def _computed(call: OpCall, inputs: Sequence[Array | None]) -> list[Array]:
    """Evaluate the call within the model's budget."""
    budget = call.scope.state.budget
    budget.allow(call.node, 0)
    with budget.timed():
        return evaluate(call.node, inputs, call.opset)


def _later(call: OpCall, inputs: Sequence[ConstantValue | None]) -> Array:
    """Evaluate a deferred call. By now a call that fails can no longer be lowered in another way."""
    try:
        return _computed(call, _arrays(inputs))[0]
    except EffsparseError:
        raise
    except Exception as error:  # the reference raises whatever numpy does
        raise LoadError(f"{call.scope.state.path}: {label(call.node)} cannot be evaluated: {error}.") from None


def _part(call: OpCall, rest: list[Array | None], i: int, data: Array) -> Array:
    return _computed(call, [data, *rest])[i]


def _elementwise(call: OpCall, operator: Operator, inputs: list[ConstantValue | None]) -> ConstantValue | None:
    """Return the result as other values of one operand's elements: the operand that is masked, or the largest."""
    operands = call.operands()
    shape: Shape = tuple(np.broadcast_shapes(*(v.shape for v in operands)))
    candidates = operands if operator.condition is None else operands[operator.condition + 1 :]
    full = [v for v in candidates if v.origin is not None and v.shape == shape]
    if not full or (operator.adds and len({v.stored for v in full}) > 1):
        return None
    if any(_mixes(v, full[0]) for v in operands):
        return None
    weight, mask = full[0], full[0].mask if operator.keeps_masks else None
    bare = weight.bare if mask is not None else None
    if operator.applies_masks and len(operands) == 2:
        found = _masked(*operands)
        if found is not None and found[0].origin is not None and found[0].shape == shape:
            weight, mask = found[0], _both(found[0].mask, found[1], shape)
            bare = weight if weight.mask is None else weight.bare
    return weight.altered(partial(_later, call, inputs), mask, bare)


def _mixes(operand: ConstantValue, weight: ConstantValue) -> bool:
    """Whether an operand has stored elements of the weight in other places than the weight itself: `W + flip(W)`."""
    if operand is weight or operand.origin is None or weight.origin is None:
        return False
    if operand.stored is not None and weight.stored is not None and operand.stored is not weight.stored:
        return False
    there, here = np.broadcast_arrays(operand.origin.addresses(), weight.origin.addresses())
    moved = there[there != here]
    return bool(np.isin(moved[moved > 0], here).any())


def _both(first: ConstantValue | None, second: ConstantValue, shape: Shape) -> ConstantValue:
    """Combine two masks in the weight's shape. A single stored mask of that shape keeps its origin."""
    masks = [second] if first is None else [first, second]
    origin = second.origin if first is None and second.unchanged and second.shape == shape else None

    def compute() -> Array:
        return np.broadcast_to(np.logical_and.reduce([nonzero(m.array) for m in masks]), shape)

    return ConstantValue(shape, compute, origin, unchanged=origin is not None)


def _masked(a: ConstantValue, b: ConstantValue) -> tuple[ConstantValue, ConstantValue] | None:
    """Return the weight and the mask of a product. A mask has zeros and ones only; a smaller one has some zeros."""
    for weight, mask in ((a, b), (b, a)):
        values = mask.array
        binary = values.dtype == bool or bool(((values == 0) | (values == 1)).all())
        if binary and values.size and (mask.shape == weight.shape or not nonzero(values).all()):
            return weight, mask
    return None


def _concatenated(inputs: list[ConstantValue | None], axis: int) -> ConstantValue | None:
    parts = [v for v in inputs if v is not None]
    followed = any(v.origin is not None for v in parts)
    if not followed or not all(not nonzero(v.array).any() if v.origin is None else v.unchanged for v in parts):
        return None
    addresses = [v.origin.addresses() if v.origin is not None else np.zeros(v.shape, np.int64) for v in parts]
    owners = {v.stored for v in parts if v.origin is not None}
    stored = owners.pop() if len(owners) == 1 else None
    where = np.concatenate(addresses, axis)

    def compute() -> Array:
        return np.concatenate([v.array for v in parts], axis)

    return ConstantValue(where.shape, compute, Origin(stored, where), unchanged=True, derived=True)


def evaluate(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array]:
    """Compute the outputs of a node. Any exception may be raised: the reference raises whatever numpy does."""
    operator = find_operator(node)
    if operator is not None and operator.evaluate is not None:
        return operator.evaluate(node, inputs)
    try:
        return _run(node, inputs, opset)
    except RuntimeError as error:
        # The reference lacks some old versions of operators. Newer versions only add to their meaning.
        if "No implementation" not in str(error):
            raise
        return _run(node, inputs, onnx.defs.onnx_opset_version())


def _run(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array]:
    # Imported late: most convolutional networks have nothing to evaluate.
    from onnx.reference import ReferenceEvaluator

    names = [f"in{i}" if a is not None else "" for i, a in enumerate(inputs)]
    outputs = [f"out{i}" for i in range(len(node.output))]
    renamed = NodeProto(op_type=node.op_type, domain=node.domain, input=names, output=outputs, attribute=node.attribute)
    opsets = [OperatorSetIdProto(domain=node.domain, version=opset)]
    function = FunctionProto(name="f", domain="f", output=outputs, node=[renamed], opset_import=opsets)
    function.input.extend(name for name in names if name)
    feeds = {name: a for name, a in zip(names, inputs, strict=True) if a is not None}
    with np.errstate(all="ignore"):
        return [np.asarray(a) for a in ReferenceEvaluator(function).run(outputs, feeds, {})]
