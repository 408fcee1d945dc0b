"""A model while positions are removed from it: what remains of each value, and the new nodes and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from effsparse_cli.compaction.positions import Array, ValuePositions
from effsparse_cli.compaction.solve import Kept
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
