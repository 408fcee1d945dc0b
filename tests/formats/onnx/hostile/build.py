"""Building blocks and the list of hostile files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper

from tests.formats.onnx.models import graph, model

Stored = dict[str, NDArray[Any]]
Builder = Callable[[], ModelProto]
HOSTILE: list[Builder] = []
LOCAL = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]


def hostile(builder: Builder) -> Builder:
    """Add a file to the list."""
    HOSTILE.append(builder)
    return builder


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def ints(*values: int) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)


def built(nodes: list[NodeProto], more: Stored | None = None, **options: Any) -> ModelProto:
    """Return a small network together with the nodes, which can use `x`, `w` and numbers and must not define `y`."""
    stored: Stored = {"w": np.ones((4, 4), np.float32), **(more or {})}
    nodes = [*nodes, node("MatMul", "x w", "y")]
    return model(graph(nodes, options.get("inputs", {"x": (1, 4)}), ["y"], stored), options.get("functions", ()))
