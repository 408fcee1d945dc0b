"""Remove positions from a model: slice stored tensors, and update the sizes that op calls state. What is computed from
shapes does not change, because each Shape still gives the original sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from effsparse_cli.compaction.onnx.rules.indexing import slice_bounds
from effsparse_cli.compaction.onnx.standard_form import standard_opset
from effsparse_cli.compaction.positions import Array, ValuePositions
from effsparse_cli.compaction.solve import Kept
from effsparse_cli.folding.onnx.run import drop_items, drop_unused
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import attribute
from effsparse_cli.graph.primitives import Bools


@dataclass
class ModelEdit:
    """The new nodes and tensors of the model; `opset` is that of the default domain."""

    values: Mapping[str, ValuePositions]
    kept: Kept
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    stored: list[TensorProto] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def stays(self, name: str, axis: int) -> Bools:
        """Return which positions of a value remain along an axis."""
        return self.kept.of(self.values[name].axes[axis])

    def sizes(self, name: str) -> list[int]:
        return [self.kept.count(ids) for ids in self.values[name].axes]

    def changed(self, name: str) -> list[int]:
        """Return the axes that lose positions."""
        return [axis for axis, n in enumerate(self.sizes(name)) if n < len(self.values[name].axes[axis])]

    def store(self, array: Array, near: str) -> str:
        """Add a stored tensor, named after `near`, and return its name."""
        name = self.free_name(f"{near}_cut")
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def free_name(self, wish: str) -> str:
        name, number = wish, 2
        while name in self.names:
            name, number = f"{wish}{number}", number + 1
        self.names.add(name)
        return name

    def override_sizes(self, name: str, new: Mapping[int, int], length: int) -> str:
        """Add nodes that replace some entries of a computed list of sizes, and return the name of the new list."""
        which, sizes = np.zeros(length, bool), np.zeros(length, np.int64)
        for entry, size in new.items():
            which[entry], sizes[entry] = True, size
        result = self.free_name(f"{name}_cut")
        inputs = [self.store(which, name), self.store(sizes, name), name]
        self.nodes.append(helper.make_node("Where", inputs, [result], name=result))
        return result


def slice_model(model: ModelProto, values: Mapping[str, ValuePositions], kept: Kept) -> ModelProto:
    """Return a copy of the model without the positions that are not kept."""
    small = deepcopy(model)
    graph = small.graph
    names = {name for node in graph.node for name in (*node.input, *node.output)} | {t.name for t in graph.initializer}
    edit = ModelEdit(values, kept, standard_opset(model), names=names)
    for tensor in graph.initializer:
        if edit.changed(tensor.name):
            stays = np.ix_(*(edit.stays(tensor.name, axis) for axis in range(len(tensor.dims))))
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[stays], tensor.name))
    for node in graph.node:
        operator = find_operator(node)
        rule = operator.positions if operator is not None else None
        if rule == "shape":
            _restore_sizes(node, edit)
        else:
            if rule in SIZES:
                SIZES[rule](node, edit)
            edit.nodes.append(node)
    nodes = deepcopy(edit.nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(edit.stored)
    _update_declared_shapes(small, edit)
    drop_unused(small)
    return small


def _update_declared_shapes(model: ModelProto, edit: ModelEdit) -> None:
    """Update the shapes of stored tensors that are also inputs, and drop those of other values that changed."""
    for value in model.graph.input:
        for axis in edit.changed(value.name):
            value.type.tensor_type.shape.dim[axis].dim_value = edit.sizes(value.name)[axis]
    drop_items(model.graph.value_info, lambda value: value.name not in edit.values or bool(edit.changed(value.name)))


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


def _resize_target(position: int) -> Callable[[NodeProto, ModelEdit], None]:
    """Return the update for operators whose input at this position lists the sizes of the result."""

    def apply(node: NodeProto, edit: ModelEdit) -> None:
        lost = edit.changed(node.output[0]) if len(node.input) > position and node.input[position] else []
        if not lost:
            return
        target = edit.values[node.input[position]]
        sizes = edit.sizes(node.output[0])
        # Expand may list sizes of the last axes only.
        skipped = len(sizes) - target.shape[0]
        new = {axis - skipped: sizes[axis] for axis in lost if axis >= skipped}
        node.input[position] = edit.override_sizes(node.input[position], new, target.shape[0])

    return apply


def _reshape(node: NodeProto, edit: ModelEdit) -> None:
    """Write out the sizes that changed, except one that is inferred (-1). A size that is copied from the input (0) is
    written out too if the input has shrunk: the result may not have."""
    target = edit.values[node.input[1]]
    lost, missing = set(edit.changed(node.output[0])), set(edit.changed(node.input[0]))
    if target.array is None:
        _resize_target(1)(node, edit)
        return
    copied = set() if attribute(node, "allowzero", 0) else set(np.flatnonzero(target.array == 0).tolist()) & missing
    array, sizes = target.array.copy(), edit.sizes(node.output[0])
    for entry in lost | copied:
        array[entry] = -1 if array[entry] == -1 else sizes[entry]
    if lost | copied:
        node.input[1] = edit.store(array, node.input[1])


def _split(node: NodeProto, edit: ModelEdit) -> None:
    x = edit.values[node.input[0]]
    axis = attribute(node, "axis", 0) % len(x.axes)
    if axis not in edit.changed(node.input[0]):
        return
    sizes = [edit.sizes(name)[axis] for name in node.output]
    _set_attributes(node, num_outputs=None, split=sizes if edit.opset < 13 else None)
    if edit.opset >= 13:
        del node.input[1:]
        node.input.append(edit.store(np.asarray(sizes, np.int64), node.output[0]))


def _slice(node: NodeProto, edit: ModelEdit) -> None:
    """Slice the remaining ones of the positions that were sliced before."""
    lost = set(edit.changed(node.input[0]))
    if not lost:
        return
    x = edit.values[node.input[0]]
    names = ("starts", "ends", "axes", "steps")
    given = {key: attribute(node, key) for key in names} if edit.opset < 10 else {}
    arrays = [edit.values[name].array if name else None for name in node.input[1:]]
    given |= {key: array for key, array in zip(names, arrays, strict=False) if array is not None}
    starts, ends = (np.array(given[key], np.int64) for key in ("starts", "ends"))
    named = given.get("axes")
    axes = [int(a) % len(x.axes) for a in named] if named is not None else list(range(len(starts)))
    for i, axis in enumerate(axes):
        if axis in lost:
            taken = np.arange(x.shape[axis])[slice_bounds(int(starts[i]), int(ends[i]), 1)]
            before = np.concatenate([[0], np.cumsum(edit.stays(node.input[0], axis))])
            starts[i] = before[taken[0]] if len(taken) else 0
            ends[i] = before[taken[-1] + 1] if len(taken) else 0
    if edit.opset < 10:
        _set_attributes(node, starts=starts.tolist(), ends=ends.tolist())
        return
    kind = edit.values[node.input[1]].array
    assert kind is not None
    node.input[1], node.input[2] = (edit.store(a.astype(kind.dtype), node.output[0]) for a in (starts, ends))


def _gather(node: NodeProto, edit: ModelEdit) -> None:
    data, indices = edit.values[node.input[0]], edit.values[node.input[1]]
    axis = attribute(node, "axis", 0) % len(data.axes)
    if indices.array is None or indices.array.ndim != 1 or axis not in edit.changed(node.input[0]):
        return
    stays = edit.stays(node.input[0], axis)
    index = np.where(indices.array < 0, indices.array + len(stays), indices.array)
    now = np.cumsum(stays) - 1
    node.input[1] = edit.store(now[index[stays[index]]].astype(indices.array.dtype), node.output[0])


def _set_groups(node: NodeProto, edit: ModelEdit, value: str) -> None:
    """Set the number of groups to the channels that are left of a value over those in one group."""
    if attribute(node, "group", 1) > 1:
        _set_attributes(node, group=edit.sizes(value)[1] // edit.sizes(node.input[1])[1])


def _set_attributes(node: NodeProto, **values: int | list[int] | None) -> None:
    """Replace attributes, or remove those that become None."""
    drop_items(node.attribute, lambda each: each.name in values)
    node.attribute.extend([helper.make_attribute(name, value) for name, value in values.items() if value is not None])


SIZES: dict[str, Callable[[NodeProto, ModelEdit], None]] = {
    "reshape": _reshape,
    "expand": _resize_target(1),
    "resize": _resize_target(3),
    "split": _split,
    "slice": _slice,
    "gather": _gather,
    "conv": lambda node, edit: _set_groups(node, edit, node.input[0]),
    "conv_transpose": lambda node, edit: _set_groups(node, edit, node.output[0]),
}
"""By the name of the rule for positions; other operators state no sizes."""
