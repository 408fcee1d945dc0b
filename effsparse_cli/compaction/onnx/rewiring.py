"""Rewire a model in place around compaction: drop branches that are always zero, give each op call its own copy of
vectors that exporters merged because they are equal, and replace what is computed from stored tensors alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from effsparse_cli.compaction.onnx.standard_form import DEFAULT_DOMAINS
from effsparse_cli.compaction.positions import Array, ValuePositions
from effsparse_cli.folding.onnx.run import drop_items, drop_unused
from effsparse_cli.formats.onnx.lowering.constants import evaluate
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import free_names, subgraphs

SLACK = 64


def drop_zero_branches(model: ModelProto, values: Mapping[str, ValuePositions]) -> bool:
    """Drop branches that are always zero and are only added to something. Return whether there were any."""
    outputs = {value.name for value in model.graph.output}
    replacements: dict[str, str] = {}
    for node in model.graph.node:
        _rename_inputs(node, replacements)
        other = _nonzero_summand(node, values)
        if other is not None and node.output[0] not in outputs:
            replacements[node.output[0]] = other
    drop_unused(model)
    return bool(replacements)


def _nonzero_summand(node: NodeProto, values: Mapping[str, ValuePositions]) -> str | None:
    """Return the name of the only summand that is not always zero, if there is one."""
    operator = find_operator(node)
    if operator is None or len(node.input) != 2:
        return None
    for neutral in reversed(operator.neutral_zeros):
        stays, goes = node.input[1 - neutral], node.input[neutral]
        if values[goes].all_zero and values[stays].shape == values[node.output[0]].shape:
            return str(stays)
    return None


def copy_shared_vectors(model: ModelProto) -> dict[str, str]:
    """Copy shared vectors, so that one may shrink without the others, and return the original name of each copy. Larger
    tensors stay shared: two smaller ones would take more space."""
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
    graph.initializer.extend([_renamed(stored[name], copy) for copy, name in copies.items()])
    return copies


def merge_equal_copies(model: ModelProto, copies: dict[str, str]) -> None:
    """Merge copies that are still equal to their originals or to each other. Subgraphs use no copies."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    ones: dict[tuple[str, bytes], str] = {}
    replacements: dict[str, str] = {}
    for name in [*dict.fromkeys(copies.values()), *copies]:
        if name in stored:
            key = (copies.get(name, name), _renamed(stored[name], "").SerializeToString())
            replacements[name] = ones.setdefault(key, name)
    for node in model.graph.node:
        _rename_inputs(node, replacements)
    drop_unused(model)


def _skip_identities(model: ModelProto, stored: set[str], fixed: set[str]) -> None:
    replacements: dict[str, str] = {}
    for node in model.graph.node:
        _rename_inputs(node, replacements)
        if node.op_type == "Identity" and node.output[0] not in fixed and node.input[0] in stored:
            replacements[node.output[0]] = node.input[0]
    drop_unused(model)


def _rename_inputs(node: NodeProto, replacements: Mapping[str, str]) -> None:
    for i, name in enumerate(node.input):
        node.input[i] = replacements.get(name, name)


def _renamed(tensor: TensorProto, name: str) -> TensorProto:
    copy = deepcopy(tensor)
    copy.name = name
    return copy


def replace_constants(model: ModelProto, values: Mapping[str, ValuePositions], opset: int) -> None:
    """Replace nodes that are computed from stored tensors alone (masked weights, transposes) by their values, unless
    these would take more space. A value takes the name of the weight that it stands for, which `values` has."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    fixed = {value.name for value in (*graph.input, *graph.output)}
    uses = Counter(name for node in graph.node for name in node.input)
    inner = free_names([NodeProto(attribute=node.attribute) for node in graph.node], set())
    replacements: dict[str, str] = {}
    holders: dict[str, str] = {}
    made: dict[str, TensorProto] = {}
    for node in graph.node:
        _rename_inputs(node, replacements)
        array = None if {*node.input, *node.output} & (fixed | inner) else _computed(node, {**stored, **made}, opset)
        if array is None:
            continue
        result = node.output[0]
        owner = (values[result].stored if result in values else None) or result
        # A result takes over a name only if nothing else reads what had that name.
        alone = owner in node.input and uses[holders.get(owner, owner)] == 1
        name = owner if alone else result
        made[name] = numpy_helper.from_array(array, name)
        replacements[result], holders[name] = name, result
    drop_items(graph.initializer, lambda tensor: tensor.name in made)
    drop_items(graph.node, lambda node: node.output[0] in replacements)
    graph.initializer.extend(made.values())
    drop_unused(model)


def _computed(node: NodeProto, stored: Mapping[str, TensorProto], opset: int) -> Array | None:
    operator = find_operator(node)
    known = node.domain in DEFAULT_DOMAINS and operator is not None and not operator.stays_in_file
    if not known or len(node.output) != 1 or any(True for _ in subgraphs(node)):
        return None
    if not any(node.input) or any(name and name not in stored for name in node.input):
        return None
    arrays = [numpy_helper.to_array(stored[name]) if name else None for name in node.input]
    try:
        (array,) = evaluate(node, arrays, opset)
    except Exception:  # the reference raises whatever numpy does: the node stays
        return None
    return array if array.nbytes <= sum(a.nbytes for a in arrays if a is not None) + SLACK else None
