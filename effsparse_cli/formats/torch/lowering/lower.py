"""Walks a traced model operator by operator, in order, and finishes the graph: outputs, layers, what is
unused and what was assumed."""

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
from effsparse_cli.formats.torch import ops  # noqa: F401  fills the table
from effsparse_cli.formats.torch.bundles import Bundle, bundle, find_bundles, unbundled, whole
from effsparse_cli.formats.torch.constants.size_arithmetic import calculate
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.lowering.unknown_sizes import is_loose, lower_loosely
from effsparse_cli.formats.torch.lowering.unobserved import decides, with_other_paths
from effsparse_cli.formats.torch.pt2.operators import UnknownOperator
from effsparse_cli.formats.torch.stored import Stored
from effsparse_cli.formats.torch.tracing.aliasing import written_nodes
from effsparse_cli.formats.torch.tracing.outputs import chosen
from effsparse_cli.formats.torch.tracing.trace import Held, Input, StoredAs, Traced
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered
from effsparse_cli.graph.graph import Graph

# Higher-order operators that only run their body under another setting: where the body's arguments begin.
WRAPPERS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}


def to_graph(traced: Traced, options: LoadOptions, notes: Sequence[str] = ()) -> Graph:
    stored = Stored(traced.stored, traced.parameters)
    low = Lowering(stored, options)
    leaves = [_leaf(low, node, traced) for node in traced.graph.nodes if node.op == "placeholder"]
    results = _walk(low, traced.graph, leaves)
    named = [(name, value) for name, value in zip(traced.outputs, results, strict=True) if name and _is_value(value)]
    outputs = [low.node(value) for _, value in chosen(named, options.outputs)]
    if traced.observed and low.steered:
        outputs = with_other_paths(low, outputs)
    graph = low.b.finish(outputs, stored.unused(), [*notes, *traced.notes, *stored.notes()])
    return replace(graph, layers=stored.layers(), mixed_weights=stored.graph_mixed_weights())


def _is_value(value: Arg) -> bool:
    return isinstance(value, Live | Const)


def _leaf(low: Lowering, node: fx.Node, traced: Traced) -> Lowered:
    leaf = traced.leaves[node.name]
    if isinstance(leaf, Input):
        value = node.meta["val"]
        return Live(low.b.source(leaf.name, value.shape), value.dtype)
    if isinstance(leaf, StoredAs) and node.users:
        return low.stored.const(leaf.name)
    return low.stored.held(leaf.name, leaf.tensor) if isinstance(leaf, Held) else leaf


def _walk(low: Lowering, graph: fx.Graph, leaves: Sequence[Any]) -> Lowered:
    """The graph's results, flat. Values are dropped after their last use, to free folded weights."""
    env: dict[fx.Node, Any] = {}
    written, bundles = written_nodes(graph), find_bundles(graph)
    last_use = {given: node for node in graph.nodes for given in node.all_input_nodes}
    remaining = iter(leaves)
    for node in graph.nodes:
        if node.op == "placeholder":
            env[node] = next(remaining)
        elif node.op == "get_attr":
            held = operator.attrgetter(str(node.target))(graph.owning_module)
            env[node] = low.stored.held(str(node.target), held) if isinstance(held, torch.Tensor) else held
        elif node.op == "call_function":
            low.b.node_name = place(node) or low.b.node_name
            env[node] = _bundled(low, node, env) if node in bundles else _call(low, node, env, node in written)
        elif node.op == "output":
            return tree_map(lambda arg: env[arg] if isinstance(arg, fx.Node) else arg, node.args[0])
        for given in node.all_input_nodes:
            if last_use[given] is node:
                del env[given]
    return ()


def _bundled(low: Lowering, node: fx.Node, env: dict[fx.Node, Any]) -> Lowered:
    given = {each: env[each] for each in node.all_input_nodes}

    def make() -> Lowered:
        return _call(low, node, {each: whole(value) for each, value in given.items()}, False)

    return bundle(list(given.values()), make) or make()


def _call(low: Lowering, node: fx.Node, env: dict[fx.Node, Any], written: bool) -> Lowered:
    target: Arg = node.target

    def value(arg: Arg) -> Arg:
        return env[arg] if isinstance(arg, fx.Node) else arg

    # Not by tree_map, which takes as long as the rest of the lowering.
    args: list[Any] = list(map_aggregate(node.args, value))
    kwargs: dict[str, Any] = dict(map_aggregate(node.kwargs, value))
    if any(isinstance(env.get(given), Bundle) for given in node.all_input_nodes):
        args, kwargs = unbundled((args, kwargs))
    low.steered = low.steered or decides(node, args)
    traced = node.meta.get("val")
    if is_loose((args, kwargs), traced) and target is not operator.getitem:
        return lower_loosely(low, (args, kwargs), traced) if node.users else None
    if isinstance(target, torch._ops.HigherOrderOperator | UnknownOperator):
        result = _higher_order(low, target, args, kwargs, traced)
        if isinstance(target, UnknownOperator) and target.may_write:
            _forget(low, target, tree_flatten((args, kwargs))[0], node, env)
        return result
    if not isinstance(target, torch._ops.OpOverload):
        return calculate(target, args)
    schema = target._schema.arguments
    mutated = [i for i, a in enumerate(schema) if a.alias_info is not None and a.alias_info.is_write]
    for i in mutated:
        if i < len(args) and isinstance(args[i], Const) and low.stored.owns(args[i].tensor):
            args[i] = replace(args[i], tensor=args[i].tensor.clone())
    result = low.apply(target, args, kwargs, traced, written)
    for i in mutated:
        given = node.args[i] if i < len(node.args) else node.kwargs.get(schema[i].name)
        _write_back(low, target, tree_flatten((args, kwargs))[0], given, result, env)
    return result


def _write_back(
    low: Lowering, target: object, operands: list[Any], given: Arg, result: Arg, env: dict[fx.Node, Any]
) -> None:
    """What was written to is the result from now on, under all its names. Where an operator writes to several
    values at once, they are taken to depend on all of its operands."""
    values = [value for value in operands if _is_value(value)]
    for node in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(node, fx.Node):
            continue
        old, new = env[node], result
        if not _is_value(result):
            if not any(isinstance(value, Live) for value in values):
                continue
            new = low.opaque(target, values, [node.meta["val"]])[0]
        env.update({other: new for other, value in env.items() if value is old})


def _forget(
    low: Lowering, target: UnknownOperator, operands: list[Any], node: fx.Node, env: dict[fx.Node, Any]
) -> None:
    """An operator of unknown schema may write to its operands: those that are used again depend on all of them."""
    values = [value for value in operands if _is_value(value)]
    for given in node.all_input_nodes:
        old = env[given]
        later = [other for other, value in env.items() if value is old and any(user > node for user in other.users)]
        if later and _is_value(old) and isinstance(given.meta.get("val"), torch.Tensor):
            (new,) = low.opaque(target, values, [given.meta["val"]])
            env.update(dict.fromkeys(later, new))


def _higher_order(low: Lowering, target: Arg, args: list[Any], kwargs: dict[str, Any], traced: Arg) -> Lowered:
    start = WRAPPERS.get(target.__name__)
    if start is not None:
        return _walk(low, args[start].graph, args[start + 1 :])
    values = [value for value in tree_flatten((args, kwargs))[0] if _is_value(value)]
    made = low.opaque(target.__name__, values, tree_flatten(traced)[0])
    return made if isinstance(traced, list | tuple) else made[0]


def place(node: fx.Node) -> str:
    """The user's path of the module that the operator is in."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    return str(paths[-1]).removeprefix("L['self']").lstrip(".").split("@")[0] if paths else ""
