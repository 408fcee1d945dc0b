"""Add a bias to an ONNX operator: as an input, or as an Add after an operator that takes none."""

from __future__ import annotations

from onnx import ModelProto, helper, numpy_helper

from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.output import NewBias


def add_bias(model: ModelProto, bias: NewBias) -> None:
    """Add the bias to the model in place."""
    graph = model.graph
    position, node = next((i, node) for i, node in enumerate(graph.node) if bias.output in node.output)
    graph.initializer.append(numpy_helper.from_array(bias.values, bias.name))
    if bias.instead:
        node.input[list(node.input).index(bias.instead)] = bias.name
        return
    operator = find_operator(node)
    contraction = operator.contraction if operator is not None else None
    if contraction is not None and contraction.bias is not None:
        del node.input[contraction.bias :]
        node.input.append(bias.name)
        return
    inner = f"{bias.output}_without_bias"
    node.output[0] = inner
    graph.node.insert(position + 1, helper.make_node("Add", [inner, bias.name], [bias.output], f"{node.name}_bias"))
