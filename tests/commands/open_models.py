"""Models that leave sizes open, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import ModelProto, TensorProto, helper
from torch import nn

from tests.formats.onnx.models import graph, model, sparse_array

LARGE = (1, 8, 4096)
"""At real lengths padding kills nothing."""


def front_end(density: float = 0.1, layers: int = 5, time: int | str = "time") -> ModelProto:
    """Like a speech recognizer: strided convolutions over an open time axis, each of which halves it."""
    weights = {f"conv{k}.weight": sparse_array(k, 8, 8, 5, density=density) for k in range(layers)}
    nodes, x = [], "x"
    for k, name in enumerate(weights):
        nodes.append(helper.make_node("Conv", [x, name], [f"c{k}"], strides=[2], pads=[2, 2]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        x = f"r{k}"
    return model(graph(nodes, {"x": ("batch", 8, time)}, [x], weights))


def save(content: ModelProto, path: Path) -> Path:
    onnx.save(content, path)
    return path


def front_module(density: float = 0.1, layers: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    convolutions = [nn.Conv1d(8, 8, 5, stride=2, padding=2, bias=False) for _ in range(layers)]
    with torch.no_grad():
        for convolution in convolutions:
            convolution.weight[torch.rand_like(convolution.weight) > density] = 0
    return nn.Sequential(*convolutions)


def with_positions(length: int) -> ModelProto:
    """A table of positions that ends somewhere, and a convolution whose kernel is longer than a few tokens."""
    stored: dict[str, Any] = {
        "words": sparse_array(1, 20, 6, density=1),
        "positions": sparse_array(2, length, 6, density=1),
        "conv.weight": sparse_array(3, 6, 6, 41, density=0.02),
        **{name: np.asarray(value, np.int64) for name, value in (("zero", 0), ("one", 1), ("axis", [0]))},
    }
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["w"]),
        helper.make_node("Shape", ["ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["places"]),
        helper.make_node("Gather", ["positions", "places"], ["p"]),
        helper.make_node("Add", ["w", "p"], ["sum"]),
        helper.make_node("Transpose", ["sum"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Conv", ["t", "conv.weight"], ["y"], pads=[20, 20]),
    ]
    return model(graph(nodes, {"ids": ("batch", "seq")}, ["y"], stored, kind=TensorProto.INT64))


def attention(widths: Sequence[int] = (6, 6)) -> ModelProto:
    """Nothing in it looks at neighbours."""
    weights = {f"w{k}": sparse_array(k, widths[0], widths[1], density=0.2) for k in range(3)}
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{k}"]) for k, name in enumerate(weights)]
    nodes += [
        helper.make_node("Transpose", ["y1"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["y0", "t"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["soft"]),
        helper.make_node("MatMul", ["soft", "y2"], ["y"]),
    ]
    return model(graph(nodes, {"x": ("batch", "seq", widths[0])}, ["y"], weights))
