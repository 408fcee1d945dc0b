"""A model that exceeds the size limit of one file gets an external data file with an unused name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.onnx.save import write_model


def model() -> ModelProto:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 30])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 30])],
        [numpy_helper.from_array(np.eye(30, dtype=np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def runs(file: Path) -> bool:
    x = np.arange(30, dtype=np.float32)[None]
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return bool(np.array_equal(session.run(None, {"x": x})[0], x))


def test_one_file_where_it_fits(tmp_path: Path) -> None:
    write_model(tmp_path / "small.onnx", model())
    assert [file.name for file in tmp_path.iterdir()] == ["small.onnx"]
    assert runs(tmp_path / "small.onnx")


def test_data_beside_a_large_one(tmp_path: Path) -> None:
    (tmp_path / "small.onnx.data").write_text("somebody else's")
    write_model(tmp_path / "small.onnx", model(), most_bytes=100)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["small.onnx", "small.onnx.data", "small.onnx.data2"]
    assert runs(tmp_path / "small.onnx")
    assert (tmp_path / "small.onnx.data").read_text() == "somebody else's"


def test_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        (tmp_path / "small.onnx.data").write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setattr(onnx, "save_model", fail)
    with pytest.raises(UsageError, match="cannot be written"):
        write_model(tmp_path / "small.onnx", model(), most_bytes=100)
    assert list(tmp_path.iterdir()) == []
