"""Lower a parsed ONNX model to a graph: bind its inputs to sizes, lower its nodes, choose outputs, collect notes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.formats.missing_shapes import combinations, missing_shapes_error
from effsparse_cli.formats.onnx.external import note_data_files
from effsparse_cli.formats.onnx.lowering.budget import Budget, too_large
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import LiveValue, SequenceValue, Value
from effsparse_cli.formats.onnx.lowering.walk import LoweringState, Scope
from effsparse_cli.formats.onnx.operators import MisfitError, canonical
from effsparse_cli.formats.onnx.parse import malformed_is_load_error
from effsparse_cli.formats.onnx.proto import choose_outputs, free_names
from effsparse_cli.formats.onnx.shapes.inference import Guesses
from effsparse_cli.formats.onnx.shapes.inputs import (
    InputShapes,
    Sizes,
    bind,
    declared_shape,
    describe,
    likely_shapes,
    open_sizes,
)
from effsparse_cli.formats.onnx.tensors.names import layer_name, layer_names
from effsparse_cli.formats.onnx.tensors.store import Store
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.verify import verify

SIZES_TO_TRY = (Sizes(224, 8), Sizes(256, 64), Sizes(32, 1024), Sizes(28, 16384), Sizes(64, 128), Sizes(640, 512))
"""Sizes for open dimensions, tried in this order until the model accepts them."""
TRIED_NODES = 10_000
"""Limit on the nodes lowered in search of shapes that a model accepts."""


def build(model: ModelProto, path: Path, options: LoadOptions) -> tuple[Graph, Store]:
    """Lower a parsed model; external data is found relative to `path`. The store knows the tensor of each layer."""
    with malformed_is_load_error(path, model):
        note_data_files(model, path)
        return _built(model, path, options)


def _built(model: ModelProto, path: Path, options: LoadOptions) -> tuple[Graph, Store]:
    first_fault, budget = "", Budget(path, model)
    if _undeclared(model.graph, options):
        problem = f"{path}: the file does not declare the shapes of its inputs."
        raise _asking(model, budget, options, UsageError, problem)
    for sizes in SIZES_TO_TRY:
        shapes = bind(_inputs(model.graph), options, sizes)
        try:
            graph, store = _lowered(model, path, options, shapes, budget)
            return replace(graph, open_dimensions=open_sizes(_inputs(model.graph), options, sizes)), store
        except MisfitError as fault:
            first_fault = first_fault or str(fault)
            if not shapes.notes:
                break
    tried = bind(_inputs(model.graph), options, SIZES_TO_TRY[0]).shapes
    first = ", ".join(f"{name}={','.join(map(str, shape))}" for name, shape in tried.items())
    problem = f"{path}: the model does not accept inputs of these shapes ({first}): {first_fault}."
    raise _asking(model, budget, options, LoadError, problem)


def _undeclared(graph: GraphProto, options: LoadOptions) -> bool:
    """Return whether the shape of some input is neither in the file nor in the options."""
    inputs = _inputs(graph)
    given = {name or inputs[0].name for name in options.input_shapes if inputs}
    return any(declared_shape(value.type) is None and value.name not in given for value in inputs)


def _asking(
    model: ModelProto, budget: Budget, options: LoadOptions, error: type[UsageError] | type[LoadError], problem: str
) -> EffsparseError:
    """Build an error that names shapes the model accepts, if any are found."""
    inputs, found = _inputs(model.graph), None
    likely = likely_shapes(model.graph, inputs)
    for name, shape in options.input_shapes.items():
        likely.setdefault(name or inputs[0].name, []).insert(0, shape)
    for shapes in combinations(likely, TRIED_NODES // (len(model.graph.node) + 1)):
        trial = replace(options, input_shapes=shapes, dims={})
        try:
            _lowered(model, budget.path, trial, bind(inputs, trial, SIZES_TO_TRY[0]), budget)
        except (EffsparseError, MisfitError):
            continue
        found = shapes
        break
    return missing_shapes_error(error, problem, [describe(value) for value in inputs], found)


def has_open_dimensions(model: ModelProto, options: LoadOptions) -> bool:
    """Return whether the file leaves sizes open, other than batches, that the options do not fix."""
    if _undeclared(model.graph, options):
        return True
    return open_sizes(_inputs(model.graph), options, SIZES_TO_TRY[0]) is not None


def _lowered(
    model: ModelProto, path: Path, options: LoadOptions, shapes: InputShapes, budget: Budget
) -> tuple[Graph, Store]:
    builder = Builder()
    budget.start()
    store, guesses = Store(path, layer_names(model)), Guesses(model, shapes.shapes, shapes.dims)
    state = LoweringState(path, model, options, store, guesses, budget)
    state.notes.extend(shapes.notes)
    state.functions.update({(f.domain, f.name, f.overload): f for f in model.functions})
    opsets = {canonical(o.domain): o.version for o in model.opset_import}
    values: dict[str, Value] = {}
    for name, shape in shapes.shapes.items():
        builder.node_name = name
        if too_large(shape):
            raise LoadError(f"{path}: its input {name!r} of shape {list(shape)} is too large to be measured.")
        values[name] = LiveValue(builder.source(name, shape))
    scope = Scope(state, builder, values, opsets)
    results = scope.run(model.graph)
    names = [output.name for output in model.graph.output]
    chosen = choose_outputs(names, options.outputs)
    call = OpCall(scope, NodeProto(), [])
    builder.node_name = "output"
    wanted = [value for name, value in zip(names, results, strict=True) if name in chosen]
    outputs = [node for value in wanted for node in _nodes(call, value)]
    _note_overridable(model.graph, state)
    mixed_weights = {
        name: state.store.mixed_weights[name] for name in builder.layers if name in state.store.mixed_weights
    }
    builder.layers, weight_notes = state.store.settle(builder.layers)
    notes = [*state.notes, *weight_notes, *state.guesses.notes]
    graph = builder.finish(outputs, _unused(model.graph), notes)
    graph = replace(graph, mixed_weights=mixed_weights)
    try:
        verify(graph)
    except ValueError as fault:
        raise LoadError(f"{path}: its operators do not fit together: {fault}. Export it again.") from None
    return graph, state.store


def _inputs(graph: GraphProto) -> list[ValueInfoProto]:
    stored = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in stored]


def _nodes(call: OpCall, value: Value) -> list[int]:
    if isinstance(value, SequenceValue):
        return [node for item in value.values for node in _nodes(call, item)]
    return [call.node_of(value)]


def _note_overridable(graph: GraphProto, state: LoweringState) -> None:
    listed = {value.name for value in graph.input}
    both = [t.name for t in graph.initializer if t.name in listed]
    if both:
        state.note(
            f"{len(both)} stored tensors are also inputs (the first is {both[0]!r}): their stored values were used"
        )


def _unused(graph: GraphProto) -> list[str]:
    used = free_names(graph.node, set()) | {value.name for value in graph.output}
    return [layer_name(t.name, None) for t in graph.initializer if t.name not in used and len(t.dims) > 1]
