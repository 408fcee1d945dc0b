"""Constant folding: an operator whose inputs are all constants in, constants out. Data movement and elementwise
arithmetic keep hold of the stored elements; everything else is computed by onnx's reference implementation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx.defs
from onnx import FunctionProto, NodeProto, OperatorSetIdProto

from effsparse_cli.errors import EffsparseError, LoadError
from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.mixing import note_mixing
from effsparse_cli.formats.onnx.nested import label
from effsparse_cli.formats.onnx.qonnx import quantize
from effsparse_cli.formats.onnx.sizes import SLOW, multiplications, result_extent
from effsparse_cli.formats.onnx.stored import Array, Origin, may_be_learned, nonzero
from effsparse_cli.formats.onnx.table import QONNX, Entry, canonical
from effsparse_cli.formats.onnx.values import Known, Value, known, note_zero_point
from effsparse_cli.graph.primitives import Shape

ADDING = ("Add", "Sub", "Sum", "Mean")
"""Every stored summand is a weight of its own."""

KEEP_MASKS = ("Cast", "CastLike", "Mul", "Div", "Neg")
"""What a mask leaves out, these leave out too."""

STRING = 8
"""The data type of text."""

Compute = Callable[[Sequence[Array | None]], list[Array]]

MOST_PENDING = 8
"""Operators that are put off until their result is needed: more are computed at once, and held."""


def fold(call: Call, entry: Entry) -> list[Value] | None:
    """None if this is not to be evaluated: text, results that are text, and what takes too long."""
    results = _fold(call, entry)
    for i, result in enumerate(results or ()):
        note_mixing(call, result, i)
    return None if results is None else list(results)


def _fold(call: Call, entry: Entry) -> list[Known] | None:
    inputs = [value if isinstance(value, Known) else None for value in call.inputs]
    size = math.prod(result_extent(call, entry.folding in ("elementwise", "first")))
    if size > SLOW.get(call.node.op_type, size):
        return None
    if any(v.text for v in inputs if v is not None) or (call.node.op_type == "Cast" and call.attr("to") == STRING):
        return None
    budget = call.scope.reading.budget
    budget.allow(call.node, size, multiplications(call))
    followed = _followed(call, entry, inputs)
    if followed is None:
        arrays = [v.array if v is not None else None for v in inputs]
        learned = [v is not None and v.derived and may_be_learned(v.array.dtype, v.shape) for v in inputs]
        derived = any(learned) and call.node.op_type not in ("Shape", "Size")
        results = _computed(call, arrays)
        budget.hold(sum(array.size for array in results))
        return [known(array, derived) for array in results]
    pending = max((v.depth for v in inputs if v is not None), default=0) + 1
    for i, value in enumerate(followed):
        value.depth = pending
        if value.origin is not None and not value.origin.strided:
            budget.hold(size)
        if pending > MOST_PENDING:
            budget.hold(math.prod(value.shape))
            followed[i] = value.settled()
    return followed


def joined(call: Call, values: Sequence[Known], axis: int, stacked: bool) -> Known:
    """Constants of a sequence or of the turns of a loop, put together."""
    size = sum(math.prod(value.shape) for value in values)
    call.scope.reading.budget.allow(call.node, size)
    call.scope.reading.budget.hold(size)
    arrays = [value.array for value in values]
    array = np.stack(arrays, axis) if stacked else np.concatenate(arrays, axis)
    return known(array, any(value.derived for value in values))


def _followed(call: Call, entry: Entry, inputs: list[Known | None]) -> list[Known] | None:
    """Results whose elements are stored ones: moved, or changed one by one."""
    compute: Compute = partial(_computed, call)
    first = inputs[0] if inputs else None
    if entry.folding == "moves" and first is not None and first.origin is not None and len(call.node.output) == 1:
        rest = [v.array if v is not None else None for v in inputs[1:]]
        return None if _fills(call, rest) else [first.moved(lambda a: compute([a, *rest])[0])]
    if entry.folding in ("elementwise", "first"):
        found = (_elementwise if entry.folding == "elementwise" else _quantized)(call, inputs)
        return None if found is None else [found]
    if call.node.op_type == "Split" and first is not None and first.origin is not None:
        rest = [v.array if v is not None else None for v in inputs[1:]]
        return [first.moved(partial(_part, compute, rest, i)) for i in range(len(call.node.output))]
    if call.node.op_type == "Concat":
        joined = _concatenated(inputs, call.attr("axis", 1))
        return None if joined is None else [joined]
    return None


def _computed(call: Call, inputs: Sequence[Array | None]) -> list[Array]:
    """The operator evaluated, within the model's budget."""
    budget = call.scope.reading.budget
    budget.allow(call.node, 0)
    with budget.timed():
        return evaluate(call.node, inputs, call.opset)


def _later(call: Call, inputs: Sequence[Known | None]) -> Array:
    """As `_computed`, when the result is needed: what fails then can no longer be lowered in another way."""
    try:
        return _computed(call, [v.array if v is not None else None for v in inputs])[0]
    except EffsparseError:
        raise
    except Exception as error:  # the reference raises whatever numpy does
        raise LoadError(f"{call.scope.reading.path}: {label(call.node)} cannot be evaluated: {error}.") from None


def _part(compute: Compute, rest: list[Array | None], i: int, data: Array) -> Array:
    return compute([data, *rest])[i]


def evaluate(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array]:
    if canonical(node.domain) == QONNX:
        return quantize(node, inputs)
    try:
        return _run(node, inputs, opset)
    except RuntimeError as error:
        # The reference leaves out some old versions of operators whose meaning has only grown since.
        if "No implementation" not in str(error):
            raise
        return _run(node, inputs, onnx.defs.onnx_opset_version())


def _run(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array]:
    # Imported late: most convolutional networks have nothing to fold.
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


def spread(points: Array, shape: Shape, axis: int, block: int = 0) -> Array:
    """Zero points of a tensor, one for all, one per position of an axis, or one per block along it, to its shape."""
    wide = points.astype(np.int64)
    if wide.size == 1:
        return np.broadcast_to(wide.reshape(()), shape)
    if block:
        return np.repeat(wide, block, axis)[tuple(slice(n) for n in shape)]
    return np.broadcast_to(wide.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]), shape)


def _elementwise(call: Call, inputs: list[Known | None]) -> Known | None:
    """The operand whose stored elements the result stands for: the one that is masked, or the largest."""
    op, operands = call.node.op_type, call.operands()
    shape: Shape = tuple(np.broadcast_shapes(*(v.shape for v in operands)))
    candidates = operands[1:] if op == "Where" else operands
    full = [v for v in candidates if v.origin is not None and v.shape == shape]
    if not full or (op in ADDING and len({v.origin.stored for v in full if v.origin is not None}) > 1):
        return None
    if any(_mixes(v, full[0]) for v in operands):
        return None
    weight, mask = full[0], full[0].mask if op in KEEP_MASKS else None
    bare = weight.bare if mask is not None else None
    if op == "Mul" and len(operands) == 2:
        found = _masked(*operands)
        if found is not None and found[0].origin is not None and found[0].shape == shape:
            weight, mask = found[0], _both(found[0].mask, found[1], shape)
            bare = weight if weight.mask is None else weight.bare
    return weight.altered(partial(_later, call, inputs), mask, bare)


def _mixes(operand: Known, weight: Known) -> bool:
    """Whether an operand has stored elements of the weight in other places than the weight itself: `W + flip(W)`."""
    if operand is weight or operand.origin is None or weight.origin is None:
        return False
    owners = operand.origin.stored, weight.origin.stored
    if None not in owners and owners[0] is not owners[1]:
        return False
    there, here = np.broadcast_arrays(operand.origin.addresses(), weight.origin.addresses())
    moved = there[there != here]
    return bool(np.isin(moved[moved > 0], here).any())


def _quantized(call: Call, inputs: list[Known | None]) -> Known | None:
    """The first input, quantized or dequantized by the others."""
    data, *parameters = inputs
    if data is None or data.origin is None:
        return None
    if call.node.op_type == "DequantizeLinear" and len(inputs) > 2 and inputs[2] is not None:
        points = spread(inputs[2].array, data.shape, call.attr("axis", 1), call.attr("block_size", 0))
        note_zero_point(data, points)
    elif canonical(call.node.domain) == QONNX:
        shapes = [v.shape for v in parameters if v is not None]
        # One element shows now, and not when the values are needed, whether the quantizer can be evaluated.
        zero = np.zeros((1,) * len(data.shape), np.float32)
        quantize(call.node, [zero, *(v.array if v is not None else None for v in parameters)])
        if np.broadcast_shapes(data.shape, *shapes) != data.shape:
            return None
    return data.altered(partial(_later, call, inputs))


def _both(first: Known | None, second: Known, shape: Shape) -> Known:
    """Two masks over each other, in the weight's shape; one alone that has it is known by where it is stored."""
    masks = [second] if first is None else [first, second]
    origin = second.origin if first is None and second.plain and second.shape == shape else None

    def compute() -> Array:
        return np.broadcast_to(np.logical_and.reduce([nonzero(m.array) for m in masks]), shape)

    return Known(shape, compute, origin, plain=origin is not None)


def _masked(a: Known, b: Known) -> tuple[Known, Known] | None:
    """Of a product, the weight and the mask: zeros and ones, of the weight's shape or with zeros to spread."""
    for weight, mask in ((a, b), (b, a)):
        values = mask.array
        binary = values.dtype == bool or bool(((values == 0) | (values == 1)).all())
        if binary and values.size and (mask.shape == weight.shape or not nonzero(values).all()):
            return weight, mask
    return None


def _concatenated(inputs: list[Known | None], axis: int) -> Known | None:
    parts = [v for v in inputs if v is not None]
    if not any(v.origin is not None for v in parts):
        return None
    if any(v.origin is None and nonzero(v.array).any() for v in parts):
        return None
    if not all(v.plain or v.origin is None for v in parts):
        return None
    addresses = [v.origin.addresses() if v.origin is not None else np.zeros(v.shape, np.int64) for v in parts]
    owners = {id(v.origin.stored): v.origin.stored for v in parts if v.origin is not None}
    stored = next(iter(owners.values())) if len(owners) == 1 else None
    where = np.concatenate(addresses, axis)
    origin = Origin(stored, where)
    return Known(where.shape, lambda: np.concatenate([v.array for v in parts], axis), origin, plain=True, derived=True)


def _fills(call: Call, rest: Sequence[Array | None]) -> bool:
    """Does a Pad write something else than zeros?"""
    if call.node.op_type != "Pad" or call.attr("mode", "constant") != "constant":
        return False
    fill = call.attr("value", 0.0) if len(rest) < 2 or rest[1] is None else rest[1]
    return bool(np.any(np.asarray(fill) != 0))
