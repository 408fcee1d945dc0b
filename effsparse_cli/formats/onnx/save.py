"""Change and save an ONNX model in memory: add a bias, write it with external data only if it is too large."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import ModelProto, helper, numpy_helper

from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.output import NewBias
from effsparse_cli.formats.writing.atomic import Check, replacing

MOST_BYTES = (1 << 31) - 1


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


def write_model(target: Path, model: ModelProto, check: Check | None = None, most_bytes: int = MOST_BYTES) -> None:
    """Write the model; `check` reads it before it gets its name."""
    if model.ByteSize() <= most_bytes:
        with replacing(target, check) as temporary:
            temporary.write_bytes(model.SerializeToString())
        return
    # The data is written first: without the model that names it, it is harmless.
    data = _free(target.resolve())
    try:
        with replacing(target, check) as temporary:
            onnx.save_model(model, temporary, save_as_external_data=True, location=data.name)
    except BaseException:
        data.unlink(missing_ok=True)
        raise


def _free(target: Path) -> Path:
    data, number = target.with_name(f"{target.name}.data"), 2
    while data.exists():
        data, number = target.with_name(f"{target.name}.data{number}"), number + 1
    return data
