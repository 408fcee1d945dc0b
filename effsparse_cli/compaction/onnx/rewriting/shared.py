"""Stored vectors that exporters merged because they are equal. Each op call gets its own copy, so that one may
shrink without the others; copies that are still equal afterwards are merged again."""

from __future__ import annotations

from collections import Counter

from onnx import ModelProto, TensorProto

from effsparse_cli.folding.onnx.unused import drop_unused


def copy_shared_vectors(model: ModelProto) -> dict[str, str]:
    """Change the model in place. Return the original name for each copy. Larger tensors stay shared: two smaller ones
    would take more space."""
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


def merge_equal_copies(model: ModelProto, copies: dict[str, str]) -> None:
    """Merge, in place, copies that are still equal to their originals or to each other."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    ones: dict[tuple[str, bytes], str] = {}
    replacements: dict[str, str] = {}
    for name in [*dict.fromkeys(copies.values()), *copies]:
        if name in stored:
            key = (copies.get(name, name), _renamed(stored[name], "").SerializeToString())
            replacements[name] = ones.setdefault(key, name)
    _replace(model, replacements)
    drop_unused(model)


def _skip_identities(model: ModelProto, stored: set[str], fixed: set[str]) -> None:
    replacements: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type == "Identity" and node.output[0] not in fixed:
            source = replacements.get(node.input[0], node.input[0])
            if source in stored:
                replacements[node.output[0]] = source
    _replace(model, replacements)
    drop_unused(model)


def _replace(model: ModelProto, replacements: dict[str, str]) -> None:
    """Rename inputs in the main graph. Vectors that subgraphs use have not been copied."""
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = replacements.get(name, name)


def _renamed(tensor: TensorProto, name: str) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy
