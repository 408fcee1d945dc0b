"""The protobuf messages of a model: op calls, attributes, subgraphs and the outer names that they use, functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import CallPath


def label(node: NodeProto) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else f"the {node.op_type} with output {list(node.output)[:1]}"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def op_calls(model: ModelProto) -> Iterator[tuple[CallPath, NodeProto]]:
    """Yield every node of a model, with its path through subgraphs or into a function."""
    yield from _op_calls(model.graph.node, ())
    for function in model.functions:
        yield from _op_calls(function.node, function_path(function))


def _op_calls(nodes: Iterable[NodeProto], path: CallPath) -> Iterator[tuple[CallPath, NodeProto]]:
    for node in nodes:
        own = (*path, call_name(node))
        yield own, node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _op_calls(attribute.g.node, (*own, attribute.name))
            for i, inner in enumerate(attribute.graphs):
                yield from _op_calls(inner.node, (*own, attribute.name, str(i)))


def call_name(node: NodeProto) -> str:
    """Return a name that is unique in a graph: the first output's. Names of nodes may be missing or repeated."""
    return next(filter(None, node.output), "")


def function_path(function: FunctionProto) -> CallPath:
    """Return the path of a function; "" is the name of no output."""
    return "", function.domain, function.name, function.overload


def free_names(nodes: Iterable[NodeProto], made: set[str]) -> set[str]:
    """Return the names that nodes and their subgraphs use and that come from outside."""
    made, free = set(made), set[str]()
    for node in nodes:
        free.update(name for name in node.input if name and name not in made)
        for inner in subgraphs(node):
            free.update(name for name in names_from_outside(inner) if name not in made)
        made.update(node.output)
    return free


def names_from_outside(graph: GraphProto) -> set[str]:
    """Return the outer names that a subgraph uses or returns."""
    local = local_names(graph)
    made = {name for node in graph.node for name in node.output}
    return free_names(graph.node, local) | {value.name for value in graph.output} - local - made


def local_names(graph: GraphProto) -> set[str]:
    """Return the names that a graph has before its first node."""
    stored = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return stored | {value.name for value in graph.input}


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """Return the value of an attribute, with strings decoded; the default if the node lacks it."""
    for each in node.attribute:
        if each.name == name:
            value = helper.get_attribute_value(each)
            return [_decoded(item) for item in value] if isinstance(value, list) else _decoded(value)
    return default


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def bound(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """Return a node of a function, and of its subgraphs, with the attributes of the call."""
    if not any(a.ref_attr_name for a in node.attribute) and not any(True for _ in subgraphs(node)):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        given = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if given is not None:
            copy.attribute.append(given)
            copy.attribute[-1].name = attribute.name
    for graph in subgraphs(copy):
        inner = [bound(n, attributes) for n in graph.node]
        del graph.node[:]
        graph.node.extend(inner)
    return copy


def choose_outputs(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the outputs selected by name or position, in the model's order; all if none is selected."""
    chosen = set()
    for want in wanted:
        if want not in names and not (want.isdigit() and int(want) < len(names)):
            raise UsageError(f"The model has no output {want!r}. Its outputs: {', '.join(names)}.")
        chosen.add(want if want in names else names[int(want)])
    return [name for name in names if not chosen or name in chosen]
