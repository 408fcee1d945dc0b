"""ONNX files that cannot be read give one clear paragraph, and never a crash, a hang or a guess."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.formats.options import LoadOptions
from tests.formats.onnx.models import graph, mlp, model, read, tensor
from tests.formats.onnx.probes import opaque_labels

Spoil = Callable[[ModelProto], None]


def duplicate(content: ModelProto) -> None:
    content.graph.initializer.append(content.graph.initializer[0])


def negative(content: ModelProto) -> None:
    content.graph.initializer[0].dims[0] = -12


def short(content: ModelProto) -> None:
    content.graph.initializer[0].raw_data = content.graph.initializer[0].raw_data[:-4]


def forged(content: ModelProto) -> None:
    del content.graph.initializer[0].dims[:]
    content.graph.initializer[0].dims.extend([10**9, 10**9])


def forged_sparse(content: ModelProto) -> None:
    del content.graph.initializer[0]
    values, places = tensor("fc1.weight", np.ones(1, np.float32)), tensor("i", np.zeros(1, np.int64))
    content.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [10**9, 10**9]))


def outside_sparse(content: ModelProto) -> None:
    del content.graph.initializer[0]
    values, places = tensor("fc1.weight", np.ones(1, np.float32)), tensor("i", np.asarray([10**6]))
    content.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [12, 9]))


def unknown_type(content: ModelProto) -> None:
    content.graph.initializer[0].data_type = 99


def absent(content: ModelProto) -> None:
    del content.graph.initializer[0]


def future(content: ModelProto) -> None:
    content.opset_import[0].version = 999


def cycle(content: ModelProto) -> None:
    content.graph.node[0].input[0] = "y"


def made_twice(content: ModelProto) -> None:
    content.graph.node[1].output[0] = "h"


def no_such_output(content: ModelProto) -> None:
    content.graph.output[0].name = "nothing"


def outside(content: ModelProto) -> None:
    _external(content, "../secret.data")


def absolute(content: ModelProto) -> None:
    _external(content, "/etc/hostname")


def missing(content: ModelProto) -> None:
    _external(content, "gone.data")


def _external(content: ModelProto, location: str) -> None:
    target = content.graph.initializer[0]
    target.ClearField("raw_data")
    target.data_location = TensorProto.EXTERNAL
    target.external_data.add(key="location", value=location)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (duplicate, "twice"), (negative, "negative"), (short, "does not fill"), (forged, "1000000000"),
        (forged_sparse, "1000000000"), (outside_sparse, "outside its shape"), (unknown_type, "data type 99"),
        (absent, "'fc1.weight'"), (future, "opset 999"), (cycle, "cycle"),
        (made_twice, "defined twice"), (no_such_output, "'nothing'"), (outside, "refused"), (absolute, "refused"),
        (missing, "gone.data"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_damaged_models(tmp_path: Path, spoil: Spoil, said: str) -> None:
    content, _ = mlp()
    spoil(content)
    (tmp_path / "m.onnx").write_bytes(content.SerializeToString())
    message = refused(tmp_path / "m.onnx")
    assert said in message
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"hello, this is not a model\n", "not an ONNX model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (ModelProto(ir_version=8).SerializeToString(), "no graph"),
        (mlp()[0].SerializeToString()[:300], "damaged"),
    ],
    ids=["empty", "text", "lfs", "html", "no graph", "cut"],
)
def test_files_that_are_not_models(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    assert said in refused(tmp_path / "m.onnx")


def test_missing_file(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "absent.onnx")


def test_truncated_external_data(tmp_path: Path) -> None:
    onnx.save(mlp()[0], tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    data = (tmp_path / "m.data").read_bytes()
    (tmp_path / "m.data").write_bytes(data[:-8])
    assert "truncated" in refused(tmp_path / "m.onnx")


def test_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(mlp()[0], folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    (folder / "m.data").rename(tmp_path / "elsewhere.data")
    (folder / "m.data").symlink_to(tmp_path / "elsewhere.data")
    assert "outside the model's folder" in refused(folder / "m.onnx")


def test_hub_cache_links_to_blobs(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    onnx.save(mlp()[0], blobs / "a", save_as_external_data=True, location="m.data", size_threshold=0)
    (blobs / "m.data").rename(blobs / "b")
    (snapshot / "m.onnx").symlink_to(blobs / "a")
    (snapshot / "m.data").symlink_to(blobs / "b")
    assert list(read(snapshot / "m.onnx", LoadOptions()).layers) == ["fc1", "fc2"]


def test_unknown_operator_is_opaque_and_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"]),
        helper.make_node("Whatever", ["h"], ["y"], domain="my.company"),
    ]
    content = model(graph(nodes, {"x": (1, 3)}, ["y"], {"w": np.ones((3, 3), np.float32)}))
    (tmp_path / "m.onnx").write_bytes(content.SerializeToString())
    assert list(opaque_labels(read(tmp_path / "m.onnx", LoadOptions()))) == ["my.company.Whatever"]


def test_missing_output(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(mlp()[0].SerializeToString())
    with pytest.raises(UsageError, match=r"no output 'z'\. Its outputs: y"):
        read(tmp_path / "m.onnx", LoadOptions(outputs=("z",)))


def test_constant_of_a_terabyte(tmp_path: Path) -> None:
    stored = {"shape": np.asarray([10**6, 10**6], np.int64)}
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["big"]),
        helper.make_node("Add", ["x", "big"], ["y"]),
    ]
    content = model(graph(nodes, {"x": (1, 3)}, ["y"], stored))
    (tmp_path / "m.onnx").write_bytes(content.SerializeToString())
    assert "refused" in refused(tmp_path / "m.onnx")


def read_all(path: Path) -> None:
    for layer in read(path, LoadOptions()).layers.values():
        layer.kept()


def refused(path: Path) -> str:
    """Return the message of an expected error; it is one paragraph."""
    with pytest.raises(EffsparseError) as caught:
        read_all(path)
    assert isinstance(caught.value, LoadError)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_name_that_is_not_utf8(tmp_path: Path) -> None:
    data = mlp()[0].SerializeToString()
    assert data.count(b"Relu") == 1
    (tmp_path / "m.onnx").write_bytes(data.replace(b"Relu", b"Rel\xff"))
    with pytest.raises(LoadError, match="not valid UTF-8"):
        read(tmp_path / "m.onnx", LoadOptions())
