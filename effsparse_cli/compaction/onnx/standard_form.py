"""Bring a model into a standard form: no model-local functions, every stored tensor an initializer with its data
inside, and nothing that its outputs do not need."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto, helper, inliner, numpy_helper

from effsparse_cli.folding.onnx.run import drop_items, drop_unused
from effsparse_cli.formats.onnx.external import is_external
from effsparse_cli.formats.onnx.proto import choose_outputs
from effsparse_cli.formats.onnx.tensors.keys import tensors
from effsparse_cli.formats.onnx.tensors.read import dense, sparse

DEFAULT_DOMAINS = ("", "ai.onnx")


def to_standard_form(model: ModelProto, path: Path, outputs: Sequence[str] = ()) -> ModelProto:
    """Return a copy in standard form. `path` locates external data; `outputs` are those to keep (default: all)."""
    copy = deepcopy(model)
    _load(copy, path)
    if copy.functions:
        copy = inliner.inline_local_functions(copy)
    for tensor in copy.graph.sparse_initializer:
        copy.graph.initializer.append(_densified(tensor, path))
    del copy.graph.sparse_initializer[:]
    for i in reversed(range(len(copy.graph.node))):
        constant = _constant(copy.graph.node[i], path)
        if constant is not None:
            copy.graph.initializer.append(constant)
            del copy.graph.node[i]
    chosen = choose_outputs([value.name for value in copy.graph.output], outputs)
    drop_items(copy.graph.output, lambda value: value.name not in chosen)
    drop_unused(copy)
    return copy


def standard_opset(model: ModelProto) -> int:
    return next((int(o.version) for o in model.opset_import if o.domain in DEFAULT_DOMAINS), 1)


def _load(model: ModelProto, path: Path) -> None:
    """Load external data into the model."""
    for _, tensor, _ in tensors(model):
        if isinstance(tensor, TensorProto) and is_external(tensor):
            name = tensor.name
            _, _, read = dense(tensor, path)
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(read(), order="C"), name))


def _densified(tensor: SparseTensorProto, path: Path) -> TensorProto:
    _, _, read = sparse(tensor, path)
    return numpy_helper.from_array(read(), tensor.values.name)


def _constant(node: NodeProto, path: Path) -> TensorProto | None:
    if node.op_type != "Constant" or node.domain not in DEFAULT_DOMAINS:
        return None
    (attribute,) = node.attribute
    value = helper.get_attribute_value(attribute)
    match attribute.name:
        case "value":
            tensor: TensorProto = deepcopy(value)
        case "sparse_value":
            tensor = _densified(value, path)
        case "value_float" | "value_floats":
            tensor = numpy_helper.from_array(np.asarray(value, np.float32))
        case "value_int" | "value_ints":
            tensor = numpy_helper.from_array(np.asarray(value, np.int64))
        case _:
            return None
    tensor.name = node.output[0]
    return tensor
