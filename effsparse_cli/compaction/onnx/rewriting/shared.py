"""Stored vectors that several operators share only because they are equal, as exporters merge them: each operator gets
a copy of its own, so that one may lose what another needs. What is equal afterwards is shared again."""

from __future__ import annotations

from collections import Counter

from onnx import ModelProto, TensorProto

from effsparse_cli.folding.onnx.unused import drop_unused


def unshare(model: ModelProto) -> dict[str, str]:
    """In place; gives by new name the name that it stands for. Larger tensors stay shared: two that differ would
    take more than one that is too large."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    fixed = {value.name for value in (*graph.input, *graph.output)}
    _skip_identities(model, set(stored), fixed)
    taken = set(stored) | {name for node in graph.node for name in node.output}
    seen: Counter[str] = Counter()
    copies: dict[str, str] = {}
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name not in stored or name in fixed or len(stored[name].dims) != 1:
                continue
            seen[name] += 1
            if seen[name] > 1:
                copy = f"{name}_{seen[name]}"
                while copy in taken:
                    copy += "_"
                taken.add(copy)
                copies[copy] = name
                node.input[i] = copy
    for copy, name in copies.items():
        graph.initializer.append(_renamed(stored[name], copy))
    return copies


def share(model: ModelProto, copies: dict[str, str]) -> None:
    """In place: copies that are still equal to what they were copied from, or to each other, become one again."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    ones: dict[tuple[str, bytes], str] = {}
    instead: dict[str, str] = {}
    for name in [*dict.fromkeys(copies.values()), *copies]:
        if name in stored:
            key = (copies.get(name, name), _renamed(stored[name], "").SerializeToString())
            instead[name] = ones.setdefault(key, name)
    _replace(model, instead)
    drop_unused(model)


def _skip_identities(model: ModelProto, stored: set[str], fixed: set[str]) -> None:
    instead: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type == "Identity" and node.output[0] not in fixed:
            source = instead.get(node.input[0], node.input[0])
            if source in stored:
                instead[node.output[0]] = source
    _replace(model, instead)
    drop_unused(model)


def _replace(model: ModelProto, instead: dict[str, str]) -> None:
    """Only in the main graph: graphs inside operators keep the names that they know."""
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = instead.get(name, name)


def _renamed(tensor: TensorProto, name: str) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy
