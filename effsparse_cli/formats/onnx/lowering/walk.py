"""Lowers a model: walks the nodes in order, looks each up in the table of operators, evaluates it if its inputs are
constants, and makes it Opaque if it cannot be lowered. Subgraphs and local functions have scopes of their own."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from effsparse_cli.errors import EffsparseError
from effsparse_cli.formats.onnx.lowering.budget import MOST_AXIS, MOST_STEPS, Budget
from effsparse_cli.formats.onnx.lowering.constants import evaluate_call
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, SequenceValue, Value
from effsparse_cli.formats.onnx.lowering.weights import is_weight, place
from effsparse_cli.formats.onnx.operators import MisfitError, NotLoweredError, Result, canonical
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import bound, free_names, function_path, label, subgraphs
from effsparse_cli.formats.onnx.shapes.inference import Guesses
from effsparse_cli.formats.onnx.tensors.keys import Key, stored_constant, tensors_inside
from effsparse_cli.formats.onnx.tensors.store import Store
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Node
from effsparse_cli.graph.primitives import CallPath, Contract, Product, Reshape, Scan, Shape, Take, Window


@dataclass(eq=False)
class LoweringState:
    """State shared by all scopes of one model while it is lowered."""

    path: Path
    model: ModelProto
    options: LoadOptions
    store: Store
    guesses: Guesses
    budget: Budget
    notes: list[str] = field(default_factory=list)
    functions: dict[tuple[str, str, str], FunctionProto] = field(default_factory=dict)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


@dataclass(eq=False)
class Scope:
    """A graph or function that is being lowered: the names that it sees, and the builder that it adds nodes to. `path`
    is where its tensors are, `calls` where its op calls are."""

    state: LoweringState
    builder: Builder
    values: MutableMapping[str, Value]
    opsets: dict[str, int]
    path: Key = ()
    calls: CallPath = ()
    nodes: Sequence[NodeProto] = ()

    def zero_point_ahead(self, name: str) -> Array | None:
        """Return the zero point that a value will be dequantized with, if it is a single number and already known."""
        for node in self.nodes:
            if node.op_type == "DequantizeLinear" and node.input[0] == name and len(node.input) > 2:
                value = self.values.get(node.input[2])
                return value.array if isinstance(value, ConstantValue) and math.prod(value.shape) == 1 else None
        return None

    def opset(self, domain: str) -> int:
        return self.opsets.get(canonical(domain), 1)

    def run(self, graph: GraphProto) -> list[Value]:
        store = self.state.store
        for tensor in graph.initializer:
            self.values[tensor.name] = store.tensor((*self.path, tensor.name), tensor)
        for sparse in graph.sparse_initializer:
            self.values[sparse.values.name] = store.tensor((*self.path, sparse.values.name), sparse)
        with self.state.budget.nested():
            self.walk(graph.node)
        return [self.values[output.name] for output in graph.output]

    def walk(self, nodes: Sequence[NodeProto]) -> None:
        self.nodes = nodes
        for position, node in enumerate(nodes):
            self.state.budget.walk(node)
            tensor = stored_constant(node) if not canonical(node.domain) else None
            if tensor is not None:
                results: list[Value | None] = [self.state.store.tensor((*self.path, node.output[0]), tensor)]
            else:
                inputs = [self.values.get(name) if name else None for name in node.input]
                self.builder.node_name = node.name or (node.output[0] if node.output else node.op_type)
                results = lower(OpCall(self, node, inputs, position))
            for name, value in zip(node.output, results, strict=False):
                if name and value is not None:
                    self.values[name] = value

    def lower(self, call: OpCall) -> list[Value | None]:
        return lower(call)

    def subgraph(self, call: OpCall, attribute: str, values: dict[str, Value], builder: Builder | None = None) -> Scope:
        """Return the scope of a subgraph, which sees outer names; with its own builder, only constants."""
        seen: MutableMapping[str, Value] = self.values
        if builder is not None:
            seen = {name: value for name, value in self.values.items() if isinstance(value, ConstantValue)}
        path, calls = (*self.path, call.position, attribute), (*call.path, attribute)
        return replace(self, builder=builder or self.builder, values=ChainMap(values, seen), path=path, calls=calls)

    def opaque(self, call: OpCall, shapes: Sequence[Shape], reason: str) -> list[int]:
        """Add Opaque nodes: every output depends on every input, and on every weight among them and in subgraphs."""
        nodes = []
        for value in [*call.inputs, *self._captured(call)]:
            nodes += self._dependencies(value, call)
        return [self.builder.opaque(reason, nodes, shape) for shape in shapes]

    def _captured(self, call: OpCall) -> list[Value]:
        """Return the outer values that the subgraphs of an op call use, and the tensors stored in them."""
        if not any(True for _ in subgraphs(call.node)):
            return []
        free = free_names([NodeProto(attribute=call.node.attribute)], set())
        captured = [self.values[name] for name in sorted(free) if name in self.values]
        held = tensors_inside(call.node, self.path, call.position)
        return [*captured, *(self.state.store.tensor(key, tensor) for key, tensor, _ in held)]

    def _dependencies(self, value: Value | None, call: OpCall) -> list[int]:
        if isinstance(value, SequenceValue):
            return [node for item in value.values for node in self._dependencies(item, call)]
        if isinstance(value, LiveValue):
            return [value.node]
        if value is None or not value.learned:
            return []
        if (value.stored or value.array).dtype.itemsize == 1:
            # It is not known which byte stands for zero, so all of them count as kept.
            everywhere = np.ones(value.shape, bool)
            value = value.altered(lambda: everywhere)
        return [place(call, value, call.node.op_type.lower())]


def lower(call: OpCall) -> list[Value | None]:
    """Return the values of an op call's outputs. Outputs that its lowering function does not give are Opaque."""
    values = _lowered(call)
    values += [None] * (len(call.node.output) - len(values))
    missing = [name for name, value in zip(call.node.output, values, strict=False) if name and value is None]
    if not missing:
        return values
    others = _opaque(call, f"{call.node.op_type} (its output {missing[0]!r})")
    return [other if value is None else value for value, other in zip(values, others, strict=False)]


def _lowered(call: OpCall) -> list[Value | None]:
    """Return outputs by function, evaluation or lowering. A call that cannot be lowered becomes Opaque."""
    node, state = call.node, call.scope.state
    function = state.functions.get((node.domain, node.op_type, node.overload))
    if function is not None:
        return list(_call_function(call, function))
    operator = find_operator(node)
    if operator is None:
        return _opaque(call, f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
    nodes, layers = len(call.b.nodes), dict(call.b.layers)
    try:
        if operator.constants != "lowered" and all(
            value is None or isinstance(value, ConstantValue) for value in call.inputs
        ):
            constants = evaluate_call(call, operator)
            if constants is not None:
                return list(constants)
            if "Contract" in operator.primitives and any(is_weight(value) for value in call.inputs):
                raise NotLoweredError("a product of constants that is not evaluated")
        extent = call.result_extent(broadcast=operator.constants == "elementwise")
        state.budget.allow_live(node, extent)
        if operator.indexed and math.prod(extent) > MOST_AXIS:
            raise NotLoweredError("its table of positions is too large")
        return _checked(call, _values(operator.lower(call)), nodes)
    except EffsparseError:
        raise
    except NotLoweredError as error:
        reason = f"{node.op_type} ({error})"
    except Exception as error:  # a model may be wrong in many ways, and must still be measured
        if isinstance(error, MisfitError) and not state.guesses.made:
            raise MisfitError(f"{label(node)}: {error}") from None
        reason = f"{node.op_type} ({type(error).__name__}: {error})"
    call.b.rewind(nodes, layers)
    return _opaque(call, reason)


def _values(result: Result) -> list[Value | None]:
    several = result if isinstance(result, Sequence) else [result]
    return [LiveValue(value) if isinstance(value, int | np.integer) else value for value in several]


def _checked(call: OpCall, values: list[Value | None], start: int) -> list[Value | None]:
    """Check the new nodes. If shapes do not fit or are negative, the model does not accept these inputs."""
    for node in call.b.nodes[start:]:
        call.scope.state.budget.allow_live(call.node, node.shape)
        _check_tables(call, node)
        shapes = [call.b.shape(i) for i in node.inputs]
        if isinstance(node.op, Reshape) and math.prod(node.shape) != math.prod(shapes[0]):
            raise MisfitError(f"{list(shapes[0])} does not hold {list(node.shape)}")
        if isinstance(node.op, Product):
            letters = node.op.equation.partition("->")[0].split(",")
            sizes = {
                (x, n) for term, s in zip(letters, shapes, strict=True) for x, n in zip(term, s, strict=True) if n != 1
            }
            if len({x for x, _ in sizes}) < len(sizes):
                raise MisfitError(f"{' and '.join(str(list(s)) for s in shapes)} do not fit together")
    for value in values:
        if isinstance(value, LiveValue) and any(n < 0 for n in call.b.shape(value.node)):
            raise MisfitError(f"its result would have the shape {call.b.shape(value.node)}")
    return values


def _check_tables(call: OpCall, node: Node) -> None:
    budget = call.scope.state.budget
    if isinstance(node.op, Contract):
        budget.add_tables(call.node, node.op.windows, node.shape[len(node.shape) - len(node.op.windows) :])
    elif isinstance(node.op, Window):
        tables = node.op.taps
        budget.add_tables(call.node, tables, [n for n, t in zip(node.shape, tables, strict=True) if t is not None])
    elif isinstance(node.op, Take):
        budget.add_tables(call.node, [node.op.index], ())
    elif isinstance(node.op, Scan) and (node.op.steps or 0) > MOST_STEPS:
        raise NotLoweredError(f"it has {node.op.steps} steps")


def _opaque(call: OpCall, reason: str) -> list[Value | None]:
    names = list(call.node.output)
    live = [call.shape_of(v) for v in call.inputs if isinstance(v, LiveValue)]
    weights = [v.shape for v in call.inputs if isinstance(v, ConstantValue) and is_weight(v)]
    likely = max(live or weights, key=math.prod, default=())
    shapes = [call.scope.state.guesses.shape(name, likely) for name in names]
    for shape in shapes:
        call.scope.state.budget.allow_live(call.node, shape)
    return [LiveValue(node) for node in call.scope.opaque(call, shapes, reason)]


def _call_function(call: OpCall, function: FunctionProto) -> list[Value]:
    given = {name: value for name, value in zip(function.input, call.inputs, strict=False) if value is not None}
    opsets = {canonical(o.domain): o.version for o in function.opset_import}
    path = ("function", function.domain, function.name, function.overload)
    calls = function_path(function)
    scope = Scope(call.scope.state, call.b, dict(given), {**call.scope.opsets, **opsets}, path, calls)
    attributes = {a.name: a for a in [*function.attribute_proto, *call.node.attribute]}
    with call.scope.state.budget.nested():
        scope.walk([bound(node, attributes) for node in function.node])
    return [scope.values[name] for name in function.output]
