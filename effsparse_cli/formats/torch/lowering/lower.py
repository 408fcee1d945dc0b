"""Lower a traced model: walk its operators in order, then finish the graph with outputs, layers and notes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_flatten, tree_map

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.lowering.bundles import Bundle, bundle, find_bundles, unbundled, whole
from effsparse_cli.formats.torch.lowering.data_dependent import (
    add_unobserved_weights,
    decides,
    has_unknown_size,
    lower_unsized,
)
from effsparse_cli.formats.torch.lowering.lowerer import Lowerer
from effsparse_cli.formats.torch.pt2.operators import UnknownOperator, calculate
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tracing.aliasing import written_nodes
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel, select_outputs
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result
from effsparse_cli.graph.graph import Graph

Values = dict[fx.Node, Any]
BODIES = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}
"""Higher-order operators that only run a graph under another setting, and the position of that graph."""


def lower_traced(traced: TracedModel, options: LoadOptions, notes: Sequence[str] = ()) -> Graph:
    """Lower a traced model to a graph; `notes` come first in its notes."""
    stored = StoredTensors(traced.stored, traced.parameters)
    lowerer = Lowerer(stored, options)
    leaves = [_leaf(lowerer, node, traced) for node in traced.graph.nodes if node.op == "placeholder"]
    results = _walk(lowerer, traced.graph, leaves)
    named = [(name, value) for name, value in zip(traced.outputs, results, strict=True) if name and _is_value(value)]
    outputs = [lowerer.node(value) for _, value in select_outputs(named, options.outputs)]
    if traced.observed and lowerer.decided:
        outputs = add_unobserved_weights(lowerer, outputs)
    graph = lowerer.b.finish(outputs, stored.unused(), [*notes, *traced.notes, *stored.notes()])
    return replace(graph, layers=stored.layers(), mixed_weights=stored.graph_mixed_weights())


def _is_value(value: Arg) -> bool:
    return isinstance(value, LiveValue | ConstantValue)


def _leaf(lowerer: Lowerer, node: fx.Node, traced: TracedModel) -> Arg:
    leaf = traced.leaves[node.name]
    if isinstance(leaf, Input):
        value = node.meta["val"]
        return LiveValue(lowerer.b.source(leaf.name, value.shape), value.dtype)
    if isinstance(leaf, StoredTensor) and node.users:
        return lowerer.stored.constant(leaf.name)
    return lowerer.stored.held(leaf.name, leaf.tensor) if isinstance(leaf, HeldTensor) else leaf


def _walk(lowerer: Lowerer, graph: fx.Graph, leaves: Sequence[Any]) -> Result:
    """Return the results of a graph as a flat list. Values are dropped after their last use, to free constants."""
    values: Values = {}
    written, bundles = written_nodes(graph), find_bundles(graph)
    last_use = {operand: node for node in graph.nodes for operand in node.all_input_nodes}
    remaining, outer = iter(leaves), lowerer.call
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "get_attr":
            held = operator.attrgetter(str(node.target))(graph.owning_module)
            values[node] = lowerer.stored.held(str(node.target), held) if isinstance(held, torch.Tensor) else held
        elif node.op == "call_function":
            lowerer.b.node_name, lowerer.call = module_path(node) or lowerer.b.node_name, (*outer, node.name)
            if node in bundles:
                values[node] = _bundle(lowerer, node, values)
            else:
                values[node] = _call(lowerer, node, values, node in written)
        elif node.op == "output":
            return tree_map(lambda arg: values[arg] if isinstance(arg, fx.Node) else arg, node.args[0])
        for operand in node.all_input_nodes:
            if last_use[operand] is node:
                del values[operand]
    return ()


def _bundle(lowerer: Lowerer, node: fx.Node, values: Values) -> Result:
    operands = {each: values[each] for each in node.all_input_nodes}

    def make() -> Result:
        return _call(lowerer, node, {each: whole(value) for each, value in operands.items()}, False)

    return bundle(list(operands.values()), make) or make()


def _call(lowerer: Lowerer, node: fx.Node, values: Values, written: bool) -> Result:
    target: Arg = node.target

    def value(arg: Arg) -> Arg:
        return values[arg] if isinstance(arg, fx.Node) else arg

    # Not by tree_map, which would take as long as all other lowering.
    args: list[Any] = list(map_aggregate(node.args, value))
    kwargs: dict[str, Any] = dict(map_aggregate(node.kwargs, value))
    if any(isinstance(values.get(operand), Bundle) for operand in node.all_input_nodes):
        args, kwargs = unbundled((args, kwargs))
    lowerer.decided = lowerer.decided or decides(node, args)
    traced = node.meta.get("val")
    if has_unknown_size((args, kwargs), traced) and target is not operator.getitem:
        return lower_unsized(lowerer, (args, kwargs), traced) if node.users else None
    if isinstance(target, torch._ops.HigherOrderOperator | UnknownOperator):
        result = _call_higher_order(lowerer, target, args, kwargs, traced)
        if isinstance(target, UnknownOperator) and target.may_write:
            _replace_written(lowerer, target, tree_flatten((args, kwargs))[0], node, values)
        return result
    if not isinstance(target, torch._ops.OpOverload):
        return calculate(target, args)
    schema = target._schema.arguments
    mutated = [i for i, a in enumerate(schema) if a.alias_info is not None and a.alias_info.is_write]
    for i in mutated:
        if i < len(args) and isinstance(args[i], ConstantValue) and lowerer.stored.owns(args[i].tensor):
            args[i] = replace(args[i], tensor=args[i].tensor.clone())
    result = lowerer.apply(target, args, kwargs, traced, written)
    for i in mutated:
        operand = node.args[i] if i < len(node.args) else node.kwargs.get(schema[i].name)
        _write_back(lowerer, target, tree_flatten((args, kwargs))[0], operand, result, values)
    return result


def _write_back(
    lowerer: Lowerer, target: object, operands: list[Any], written: Arg, result: Arg, values: Values
) -> None:
    """Make the result the value of an operand that was written to, under all its names. If an operator writes to
    several operands at once, they are assumed to depend on all of its operands."""
    tensors = [value for value in operands if _is_value(value)]
    for node in written if isinstance(written, list | tuple) else [written]:
        if not isinstance(node, fx.Node):
            continue
        old, new = values[node], result
        if not _is_value(result):
            if not any(isinstance(value, LiveValue) for value in tensors):
                continue
            new = lowerer.opaque(target, tensors, [node.meta["val"]])[0]
        values.update({other: new for other, value in values.items() if value is old})


def _replace_written(
    lowerer: Lowerer, target: UnknownOperator, operands: list[Any], node: fx.Node, values: Values
) -> None:
    """An operator of unknown schema may write to its operands: those that are used again depend on all of them."""
    tensors = [value for value in operands if _is_value(value)]
    for operand in node.all_input_nodes:
        old = values[operand]
        later = [other for other, value in values.items() if value is old and any(user > node for user in other.users)]
        if later and _is_value(old) and isinstance(operand.meta.get("val"), torch.Tensor):
            (new,) = lowerer.opaque(target, tensors, [operand.meta["val"]])
            values.update(dict.fromkeys(later, new))


def _call_higher_order(lowerer: Lowerer, target: Arg, args: list[Any], kwargs: dict[str, Any], traced: Arg) -> Result:
    body = BODIES.get(target.__name__)
    if body is not None:
        return _walk(lowerer, args[body].graph, args[body + 1 :])
    tensors = [value for value in tree_flatten((args, kwargs))[0] if _is_value(value)]
    results = lowerer.opaque(target.__name__, tensors, tree_flatten(traced)[0])
    return results if isinstance(traced, list | tuple) else results[0]


def module_path(node: fx.Node) -> str:
    """Return the path of the module whose code called the operator."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    return str(paths[-1]).removeprefix("L['self']").lstrip(".").split("@")[0] if paths else ""
