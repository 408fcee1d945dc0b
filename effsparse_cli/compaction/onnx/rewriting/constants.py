"""Replaces nodes that are computed from stored tensors alone (masked weights, transposes) by their values. A value
takes the name of the weight that it stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from effsparse_cli.compaction.onnx.rewriting.standard_form import DEFAULT_DOMAINS
from effsparse_cli.compaction.positions import Array, ValuePositions
from effsparse_cli.folding.onnx.unused import drop_unused
from effsparse_cli.formats.onnx.lowering.constants import evaluate
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import free_names, subgraphs

SLACK = 64


def replace_constants(model: ModelProto, values: Mapping[str, ValuePositions], opset: int) -> None:
    """Change the model in place, unless a value would take more space. `values` say which stored tensor a value stands
    for."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    fixed = {value.name for value in (*graph.input, *graph.output)}
    uses = Counter(name for node in graph.node for name in node.input)
    inner = free_names([NodeProto(attribute=node.attribute) for node in graph.node], set())
    replacements: dict[str, str] = {}
    holders: dict[str, str] = {}
    made: dict[str, TensorProto] = {}
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = replacements.get(name, name)
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
    for i in reversed(range(len(graph.initializer))):
        if graph.initializer[i].name in made:
            del graph.initializer[i]
    for i in reversed(range(len(graph.node))):
        if graph.node[i].output[0] in replacements:
            del graph.node[i]
    graph.initializer.extend(made.values())
    drop_unused(model)


def _computed(node: NodeProto, stored: Mapping[str, TensorProto], opset: int) -> Array | None:
    given = [stored.get(name) for name in node.input if name]
    operator = find_operator(node)
    known = node.domain in DEFAULT_DOMAINS and operator is not None and not operator.stays_in_file
    if (
        not known
        or any(True for _ in subgraphs(node))
        or not given
        or any(tensor is None for tensor in given)
        or len(node.output) != 1
    ):
        return None
    arrays = [numpy_helper.to_array(stored[name]) if name else None for name in node.input]
    try:
        (array,) = evaluate(node, arrays, opset)
    except Exception:  # the reference raises whatever numpy does: the node stays
        return None
    return array if array.nbytes <= sum(a.nbytes for a in arrays if a is not None) + SLACK else None
