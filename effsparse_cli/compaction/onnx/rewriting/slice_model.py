"""Remove positions from a model: slice stored tensors, and update the sizes that the model states. What is computed
from shapes does not change, because each Shape still gives the original sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from effsparse_cli.compaction.onnx.rewriting.edit import ModelEdit
from effsparse_cli.compaction.onnx.rewriting.sizes import SIZES
from effsparse_cli.compaction.onnx.rewriting.standard_form import standard_opset
from effsparse_cli.compaction.positions import Array, ValuePositions
from effsparse_cli.compaction.solve import Kept
from effsparse_cli.folding.onnx.unused import drop_unused
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import attribute
from effsparse_cli.graph.primitives import Bools


def slice_model(model: ModelProto, values: Mapping[str, ValuePositions], kept: Kept) -> ModelProto:
    """Return a copy of the model without the positions that are not kept."""
    small = ModelProto()
    small.CopyFrom(model)
    graph = small.graph
    opset = standard_opset(model)
    names = {name for node in graph.node for name in (*node.input, *node.output)} | {t.name for t in graph.initializer}
    edit = ModelEdit(values, kept, opset, names=names)
    for tensor in graph.initializer:
        if edit.changed(tensor.name):
            array = sliced(numpy_helper.to_array(tensor), [edit.stays(tensor.name, i) for i in range(len(tensor.dims))])
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in graph.node:
        operator = find_operator(node)
        rule = operator.positions if operator is not None else None
        if rule == "shape":
            _restore_sizes(node, edit)
            continue
        if rule in SIZES:
            SIZES[rule](node, edit)
        edit.nodes.append(node)
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in edit.nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(edit.stored)
    _update_declared_shapes(small, edit)
    drop_unused(small)
    return small


def sliced(array: Array, stays: Sequence[Bools]) -> Array:
    for axis, mask in enumerate(stays):
        if not mask.all():
            array = array.compress(mask, axis)
    return np.ascontiguousarray(array)


def _update_declared_shapes(model: ModelProto, edit: ModelEdit) -> None:
    """Update the shapes of stored tensors that are also inputs, and drop those of other values that changed."""
    for value in model.graph.input:
        for axis in edit.changed(value.name):
            value.type.tensor_type.shape.dim[axis].dim_value = edit.sizes(value.name)[axis]
    infos = [v for v in model.graph.value_info if v.name in edit.values and not edit.changed(v.name)]
    copies = [type(v).FromString(v.SerializeToString()) for v in infos]
    del model.graph.value_info[:]
    model.graph.value_info.extend(copies)


def _restore_sizes(node: NodeProto, edit: ModelEdit) -> None:
    """Let a Shape give the original sizes."""
    x = edit.values[node.input[0]]
    rank = len(x.axes)
    taken = list(range(rank))[slice(attribute(node, "start", 0), attribute(node, "end", rank))]
    lost = set(edit.changed(node.input[0]))
    new = {entry: len(x.axes[axis]) for entry, axis in enumerate(taken) if axis in lost}
    edit.nodes.append(node)
    if new:
        result = node.output[0]
        node.output[0] = edit.free_name(f"{result}_now")
        restored = edit.override_sizes(node.output[0], new, len(taken))
        edit.nodes[-1].output[0] = result
        edit.nodes[-1].name = restored
