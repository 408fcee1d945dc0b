"""Remove the positions that nothing needs from an ONNX model. In a survey each node, in order, states by its rule how
positions correspond; what these facts let go is sliced away."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper

from effsparse_cli.compaction.onnx import rewiring
from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.onnx.rules import RULES
from effsparse_cli.compaction.onnx.run import ALL_RUNNABLE, Feeds, observe
from effsparse_cli.compaction.onnx.slicing import slice_model
from effsparse_cli.compaction.onnx.standard_form import standard_opset
from effsparse_cli.compaction.positions import Array, PositionFacts, ValuePositions
from effsparse_cli.compaction.solve import Kept, solve
from effsparse_cli.folding.onnx.unrunnable import UnrunnableOperators
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import free_names
from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True, eq=False)
class ShrunkModel:
    """The smaller model, and which positions of the surveyed values are kept."""

    model: ModelProto
    survey: Survey
    kept: Kept


def shrink(
    model: ModelProto,
    feeds: Feeds,
    may_rewire: bool = True,
    block: int = 1,
    unrunnable: UnrunnableOperators = ALL_RUNNABLE,
) -> ShrunkModel:
    """Return a smaller copy of a model in standard form.

    `feeds` are inputs of the shapes that count, and assumed results of operators that cannot be run (`unrunnable`).
    With `may_rewire`, branches that are always zero are dropped, and vectors that several operators share because they
    are equal are copied first. Grouped convolutions keep multiples of `block` groups.
    """
    whole = deepcopy(model)
    copies = rewiring.copy_shared_vectors(whole) if may_rewire else {}
    shapes = {name: array.shape for name, array in feeds.items() if name not in unrunnable.results}
    seen = {**feeds, **observe(whole, feeds, unrunnable)}
    found = survey(whole, shapes, seen)
    while may_rewire and rewiring.drop_zero_branches(whole, found.values):
        found = survey(whole, shapes, seen)
    kept = solve(found.facts, block)
    small = slice_model(whole, found.values, kept)
    rewiring.merge_equal_copies(small, copies)
    rewiring.replace_constants(small, found.values, standard_opset(small))
    return ShrunkModel(small, found, kept)


@dataclass(frozen=True, eq=False)
class Survey:
    """`unknown` are the operators without a rule, in order of use."""

    facts: PositionFacts
    values: Mapping[str, ValuePositions]
    unknown: tuple[str, ...]


def survey(model: ModelProto, shapes: Mapping[str, Shape], seen: Mapping[str, Any]) -> Survey:
    """`seen` has every value, inputs too, from one run with inputs of these shapes."""
    facts, values, unknown = PositionFacts(), dict[str, ValuePositions](), dict[str, None]()
    opset = standard_opset(model)
    # If no dimension is open, everything computed from shapes is constant.
    settled = all(dim.HasField("dim_value") for v in model.graph.input for dim in v.type.tensor_type.shape.dim)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        values[tensor.name] = replace(facts.fresh(array.shape), array=array, stored=tensor.name)
    for name, shape in shapes.items():
        values[name] = facts.fresh(shape)
        facts.need(*values[name].axes)
    for node in model.graph.node:
        inputs = [values[name] if name else None for name in node.input]
        found = [_shape(seen[name]) if name else None for name in node.output]
        op = OpPositions(node, inputs, [_dtype(values, seen, name) for name in node.input], found, facts, opset)
        operator = find_operator(node)
        results = _apply_rule(op)
        known = settled and operator is not None and operator.positions == "shape"
        known |= all(value is None or value.array is not None for value in inputs)
        ruled = results is not None
        if results is None:
            unknown[node.op_type] = None
            results = _keep_all(op, values)
        for name, value in zip(node.output, results, strict=False):
            if name:
                values[name] = _constant(value, seen[name], inputs) if known and ruled else value
                facts.axes.extend(value.axes)  # a part of an axis keeps a position too
    for output in model.graph.output:
        facts.need(*values[output.name].axes)
    return Survey(facts, values, tuple(unknown))


def _apply_rule(op: OpPositions) -> list[ValuePositions] | None:
    """Return the outputs, or None if no rule applies. A rule that raises may have stated facts already: they can only
    keep more positions."""
    operator = find_operator(op.node)
    if operator is None or operator.positions is None:
        return None
    try:
        found = RULES[operator.positions](op)
    except NoRuleError:
        return None
    results = found if isinstance(found, list) else [found]
    if [value.shape for value in results] != list(op.shapes[: len(results)]):
        return None
    return results + _keep_outputs(op, len(results))


def _keep_outputs(op: OpPositions, start: int) -> list[ValuePositions]:
    rest = [op.facts.fresh(shape or ()) for shape in op.shapes[start:]]
    for value in rest:
        op.facts.need(*value.axes)
    return rest


def _keep_all(op: OpPositions, values: Mapping[str, ValuePositions]) -> list[ValuePositions]:
    """Keep all positions of inputs and outputs, and of the values that subgraphs read."""
    op.keep_inputs(0)
    for name in free_names([op.node], set()):
        op.facts.need(*values[name].axes)
    return _keep_outputs(op, 0)


def _constant(value: ValuePositions, array: Array, inputs: list[ValuePositions | None]) -> ValuePositions:
    """Return a value as a constant. It counts as the largest of the stored tensors that it is computed from; as the
    weight if these are a weight and its mask."""
    ranks = {
        v.stored: (v.array.size, bool(np.any((v.array != 0) & (v.array != 1)))) if len(inputs) > 1 else (0, False)
        for v in inputs
        if v is not None and v.array is not None
    }
    return replace(value, array=np.asarray(array), stored=max(ranks, key=lambda name: ranks[name], default=None))


def _dtype(values: Mapping[str, ValuePositions], seen: Mapping[str, Any], name: str) -> np.dtype[Any] | None:
    stored = values[name].array if name else None
    value = seen.get(name) if stored is None else stored
    return value.dtype if isinstance(value, np.ndarray) else None


def _shape(value: Any) -> Shape | None:
    return tuple(value.shape) if isinstance(value, np.ndarray) else None
