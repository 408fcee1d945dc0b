"""Positions cut out of a model: stored tensors are sliced, and what the model says about sizes is said anew. All that
is computed from shapes stays as it was, since each Shape still gives the sizes before the cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from effsparse_cli.compaction.onnx.rewriting.edit import Cut
from effsparse_cli.compaction.onnx.rewriting.sizes import SIZES, attribute
from effsparse_cli.compaction.onnx.rewriting.standard_form import standard_opset
from effsparse_cli.compaction.positions import Array, Value
from effsparse_cli.compaction.solve import Kept
from effsparse_cli.folding.onnx.unused import drop_unused
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.graph.primitives import Bools


def rewrite(model: ModelProto, values: Mapping[str, Value], kept: Kept) -> ModelProto:
    """A copy of the model without what does not stay."""
    small = ModelProto()
    small.CopyFrom(model)
    graph = small.graph
    opset = standard_opset(model)
    names = {name for node in graph.node for name in (*node.input, *node.output)} | {t.name for t in graph.initializer}
    cut = Cut(values, kept, opset, names=names)
    for tensor in graph.initializer:
        if cut.changed(tensor.name):
            array = sliced(numpy_helper.to_array(tensor), [cut.stays(tensor.name, i) for i in range(len(tensor.dims))])
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in graph.node:
        operator = find_operator(node)
        rule = operator.positions if operator is not None else None
        if rule == "shape":
            _restore_sizes(node, cut)
            continue
        if rule in SIZES:
            SIZES[rule](node, cut)
        cut.nodes.append(node)
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in cut.nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(cut.stored)
    _tell_sizes(small, cut)
    drop_unused(small)
    return small


def sliced(array: Array, stays: Sequence[Bools]) -> Array:
    for axis, mask in enumerate(stays):
        if not mask.all():
            array = array.compress(mask, axis)
    return np.ascontiguousarray(array)


def _tell_sizes(model: ModelProto, cut: Cut) -> None:
    """What is noted about shapes: stored tensors that are inputs too get theirs, other changed ones are forgotten."""
    for value in model.graph.input:
        for axis in cut.changed(value.name):
            value.type.tensor_type.shape.dim[axis].dim_value = cut.sizes(value.name)[axis]
    infos = [v for v in model.graph.value_info if v.name in cut.values and not cut.changed(v.name)]
    copies = [type(v).FromString(v.SerializeToString()) for v in infos]
    del model.graph.value_info[:]
    model.graph.value_info.extend(copies)


def _restore_sizes(node: NodeProto, cut: Cut) -> None:
    x = cut.values[node.input[0]]
    rank = len(x.axes)
    taken = list(range(rank))[slice(attribute(node, "start", 0), attribute(node, "end", rank))]
    lost = set(cut.changed(node.input[0]))
    new = {entry: len(x.axes[axis]) for entry, axis in enumerate(taken) if axis in lost}
    cut.nodes.append(node)
    if new:
        result = node.output[0]
        node.output[0] = cut.free(f"{result}_now")
        restored = cut.overruled(node.output[0], new, len(taken))
        cut.nodes[-1].output[0] = result
        cut.nodes[-1].name = restored
