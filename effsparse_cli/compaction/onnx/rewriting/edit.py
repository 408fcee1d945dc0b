"""A model being cut: what stays of each value, and the nodes and tensors that take the place of old ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from effsparse_cli.compaction.positions import Array, Value
from effsparse_cli.compaction.solve import Kept
from effsparse_cli.graph.primitives import Bools


@dataclass
class Cut:
    """The model's new nodes and tensors while it is written; `opset` is that of the standard operators."""

    values: Mapping[str, Value]
    kept: Kept
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    stored: list[TensorProto] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def stays(self, name: str, axis: int) -> Bools:
        return self.kept.of(self.values[name].axes[axis])

    def sizes(self, name: str) -> list[int]:
        return [self.kept.count(ids) for ids in self.values[name].axes]

    def changed(self, name: str) -> list[int]:
        """The axes from which something is cut."""
        return [axis for axis, n in enumerate(self.sizes(name)) if n < len(self.values[name].axes[axis])]

    def store(self, array: Array, near: str) -> str:
        name = self.free(f"{near}_cut")
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def free(self, wish: str) -> str:
        name, number = wish, 2
        while name in self.names:
            name, number = f"{wish}{number}", number + 1
        self.names.add(name)
        return name

    def overruled(self, name: str, new: Mapping[int, int], length: int) -> str:
        """A computed list of sizes, with some of them replaced."""
        which, sizes = np.zeros(length, bool), np.zeros(length, np.int64)
        for entry, size in new.items():
            which[entry], sizes[entry] = True, size
        result = self.free(f"{name}_cut")
        inputs = [self.store(which, name), self.store(sizes, name), name]
        self.nodes.append(helper.make_node("Where", inputs, [result], name=result))
        return result
