"""Sizes that op calls state: update them once positions are removed from an input or output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import NodeProto, helper

from effsparse_cli.compaction.onnx.rewriting.edit import ModelEdit
from effsparse_cli.compaction.onnx.rules.indexing import slice_bounds
from effsparse_cli.formats.onnx.proto import attribute


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
    sizes = np.asarray([edit.sizes(name)[axis] for name in node.output], np.int64)
    drop_attributes(node, "num_outputs", "split")
    if edit.opset < 13:
        node.attribute.append(helper.make_attribute("split", sizes.tolist()))
        return
    del node.input[1:]
    node.input.append(edit.store(sizes, node.output[0]))


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
        drop_attributes(node, "starts", "ends")
        node.attribute.extend(
            [helper.make_attribute("starts", starts.tolist()), helper.make_attribute("ends", ends.tolist())]
        )
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


def _conv(node: NodeProto, edit: ModelEdit) -> None:
    _set_groups(node, edit, edit.sizes(node.input[0])[1])


def _conv_transpose(node: NodeProto, edit: ModelEdit) -> None:
    _set_groups(node, edit, edit.sizes(node.output[0])[1])


def _set_groups(node: NodeProto, edit: ModelEdit, channels: int) -> None:
    """Set the number of groups to the channels that are left over those in one group."""
    if attribute(node, "group", 1) > 1:
        drop_attributes(node, "group")
        node.attribute.append(helper.make_attribute("group", channels // edit.sizes(node.input[1])[1]))


def drop_attributes(node: NodeProto, *names: str) -> None:
    kept = [a for a in node.attribute if a.name not in names]
    copies = [type(a).FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)


SIZES: dict[str, Callable[[NodeProto, ModelEdit], None]] = {
    "reshape": _reshape,
    "expand": _resize_target(1),
    "resize": _resize_target(3),
    "split": _split,
    "slice": _slice,
    "gather": _gather,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
}
"""By the name of the rule for positions; other operators state no sizes."""
