"""An analysis reads each weight once: for its counts, for NaN, for patterns and for pictures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.stored_numbers import StoredNumbers

NOTE = "NaN or infinite values in 1 weight tensor ({}): they count as kept"


def onnx_graph(folder: Path) -> Graph:
    weights = {name: np.eye(8, dtype=np.float32) for name in "ab"}
    weights["b"][0, 0] = np.nan
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("MatMul", ["h", "b"], ["y"])]
    sizes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy"]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "two", sizes[:1], sizes[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return load(folder / "m.onnx", LoadOptions())


def torch_graph(folder: Path) -> Graph:
    first, second = (torch.nn.Linear(8, 8).requires_grad_(False) for _ in range(2))
    second.weight[0, 0] = torch.nan
    return from_module(torch.nn.Sequential(first, second), (torch.ones(1, 8),), None, LoadOptions())


@pytest.mark.parametrize(("build", "name"), [(onnx_graph, "b"), (torch_graph, "1")])
def test_each_weight_is_read_once(build: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[str] = Counter()
    graph: Graph = build(tmp_path)
    for layer in graph.layers.values():
        numbers = layer.kept
        assert isinstance(numbers, StoredNumbers)
        counting = lambda read=numbers.read, layer=layer: reads.update([layer.name]) or read()  # noqa: E731
        monkeypatch.setitem(numbers.__dict__, "read", counting)
        assert numbers.finite is not None
        assert numbers.finite is layer.finite
        monkeypatch.setattr(numbers.finite, "_look", lambda: pytest.fail("read again"))
    found = analyze_graph(graph, patterns=True, pictures=True)
    assert NOTE.format(name) in found.notes
    assert [layer.name for layer in graph.layers.values() if layer.finite is not None and not layer.finite()] == [name]
    assert set(reads.values()) == {1}
