"""A bias that an ONNX operator did not have, or not for itself: an input more for convolutions and Gemm, a sum behind a
MatMul, or an input of its own."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import ModelProto, helper, numpy_helper

from effsparse_cli.folding.onnx.wiring import find_contraction
from effsparse_cli.formats.onnx.tensors.stored import Array


@dataclass(frozen=True, eq=False)
class NewBias:
    """`output` is the name of the value that the bias goes into, as the model has it; `values` one per channel. It
    takes the place of the input `instead`, which other operators use too."""

    output: str
    name: str
    values: Array
    instead: str = ""


def add_bias(model: ModelProto, bias: NewBias) -> None:
    graph = model.graph
    position, node = next((i, node) for i, node in enumerate(graph.node) if bias.output in node.output)
    graph.initializer.append(numpy_helper.from_array(bias.values, bias.name))
    if bias.instead:
        node.input[list(node.input).index(bias.instead)] = bias.name
        return
    contraction = find_contraction(node)
    if contraction is not None and contraction.bias is not None:
        del node.input[contraction.bias :]
        node.input.append(bias.name)
        return
    inner = f"{bias.output}_without_bias"
    node.output[0] = inner
    graph.node.insert(position + 1, helper.make_node("Add", [inner, bias.name], [bias.output], f"{node.name}_bias"))
