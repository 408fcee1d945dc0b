"""A model written back: what is not kept is zero, everything else is as it was to the byte, and onnxruntime runs it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.primitives import Bools
from tests.formats.onnx.forms import FORMS, as_qdq_per_channel
from tests.formats.onnx.models import Floats, graph, mlp, model, read
from tests.formats.write import write_kept

Form = Callable[[Floats, Floats], ModelProto]


def half(shape: tuple[int, ...]) -> Bools:
    return np.asarray(np.arange(math.prod(shape)).reshape(shape) % 2 == 0)


def saved(content: ModelProto, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "source.onnx"
    path.write_bytes(content.SerializeToString())
    return path


def run(path: Path, x: Floats) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(str(path))
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("form", [lambda a, b: mlp()[0], *FORMS], ids=lambda f: f.__name__)
def test_what_is_not_kept_is_zero_in_every_form(form: Form, tmp_path: Path) -> None:
    _, stored = mlp()
    source = saved(form(stored["fc1.weight"], stored["fc2.weight"]), tmp_path)
    before = read(source, LoadOptions())
    masks = {"fc1": half(before.layers["fc1"].shape)}
    write_kept(source, tmp_path / "target.onnx", masks)
    after = read(tmp_path / "target.onnx", LoadOptions())
    # A weight that a mask in the file removed comes back with its value.
    there = np.ones_like(masks["fc1"]) if before.layers["fc1"].masked else before.layers["fc1"].kept()
    assert np.array_equal(after.layers["fc1"].kept(), there & masks["fc1"])
    assert np.array_equal(after.layers["fc2"].kept(), before.layers["fc2"].kept())
    x = np.random.default_rng(0).normal(size=(1, 9)).astype(np.float32)
    assert run(tmp_path / "target.onnx", x).shape == run(source, x).shape


@pytest.mark.parametrize("form", [lambda a, b: mlp()[0], *FORMS], ids=lambda f: f.__name__)
def test_all_kept_gives_the_same_file(form: Form, tmp_path: Path) -> None:
    _, stored = mlp()
    source = saved(form(stored["fc1.weight"], stored["fc2.weight"]), tmp_path)
    layers = read(source, LoadOptions()).layers
    kept = {name: layer.kept() if layer.masked else np.ones(layer.shape, bool) for name, layer in layers.items()}
    write_kept(source, tmp_path / "target.onnx", kept)
    assert (tmp_path / "target.onnx").read_bytes() == source.read_bytes()


def test_everything_else_is_left_alone(tmp_path: Path) -> None:
    content, _ = mlp()
    content.producer_name = "someone"
    content.metadata_props.add(key="licence", value="mine")
    content.graph.node[0].doc_string = "first"
    source = saved(content, tmp_path)
    write_kept(source, tmp_path / "target.onnx", {"fc1": np.zeros((12, 9), bool)})
    after = onnx.load(tmp_path / "target.onnx")
    assert not numpy_helper.to_array(after.graph.initializer[0]).any()
    after.graph.initializer[0].CopyFrom(content.graph.initializer[0])
    assert after == content


def test_the_output_is_that_of_the_pruned_network(tmp_path: Path) -> None:
    content, stored = mlp()
    masks = {"fc1": half((12, 9)), "fc2": ~half((5, 12))}
    source = saved(content, tmp_path)
    write_kept(source, tmp_path / "target.onnx", masks)
    x = np.random.default_rng(0).normal(size=(1, 9)).astype(np.float32)
    hidden = np.maximum(x @ (stored["fc1.weight"] * masks["fc1"]).T, 0)
    assert np.allclose(run(tmp_path / "target.onnx", x), hidden @ (stored["fc2.weight"] * masks["fc2"]).T, atol=1e-5)


def test_a_quantised_zero_is_the_zero_point_of_its_row(tmp_path: Path) -> None:
    _, stored = mlp()
    source = saved(as_qdq_per_channel(stored["fc1.weight"], stored["fc2.weight"]), tmp_path)
    write_kept(source, tmp_path / "target.onnx", {"fc1": np.zeros((12, 9), bool)})
    after = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "target.onnx").graph.initializer}
    assert np.array_equal(after["fc1.weight"], np.broadcast_to(after["fc1.zero"][:, None], (12, 9)))


def test_packed_weights(tmp_path: Path) -> None:
    packed = np.random.default_rng(0).integers(0, 255, (2, 1, 8)).astype(np.uint8)
    stored: dict[str, NDArray[Any]] = {"w": packed, "s": np.ones(2, np.float32)}
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=16, N=2, bits=4, block_size=16
    )
    source = saved(model(graph([node], {"x": (1, 16)}, ["y"], stored)), tmp_path)
    before, mask = read(source, LoadOptions()).layers["w"], half((2, 16))
    write_kept(source, tmp_path / "target.onnx", {"w": mask})
    assert np.array_equal(read(tmp_path / "target.onnx", LoadOptions()).layers["w"].kept(), before.kept() & mask)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8])
def test_numbers_in_typed_fields(tmp_path: Path, kind: type) -> None:
    """Older exporters list numbers one by one, and half floats as integers of their bits."""
    content, stored = mlp()
    values: NDArray[Any] = (stored["fc1.weight"] * 10).astype(kind)
    first = content.graph.initializer[0]
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    given = values.reshape(-1).tolist()
    first.CopyFrom(helper.make_tensor(first.name, number, values.shape, given))
    content.graph.node.insert(0, helper.make_node("Cast", [first.name], ["cast"], to=TensorProto.FLOAT))
    content.graph.node[1].input[1] = "cast"
    source = saved(content, tmp_path)
    write_kept(source, tmp_path / "target.onnx", {"fc1": half((12, 9))})
    after = onnx.load(tmp_path / "target.onnx").graph.initializer[0]
    assert not after.HasField("raw_data")
    assert np.array_equal(numpy_helper.to_array(after), np.where(half((12, 9)), values, 0).astype(kind))


@pytest.mark.parametrize("same_folder", [True, False])
def test_external_data_stays_external(tmp_path: Path, same_folder: bool) -> None:
    content, stored = mlp()
    source = tmp_path / "source.onnx"
    onnx.save(content, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    target = (tmp_path if same_folder else tmp_path / "other") / "target.onnx"
    target.parent.mkdir(exist_ok=True)
    write_kept(source, target, {"fc2": half((5, 12))})
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    after = {t.name: numpy_helper.to_array(t) for t in onnx.load(target).graph.initializer}
    assert np.array_equal(after["fc1.weight"], stored["fc1.weight"])
    assert np.array_equal(after["fc2.weight"], stored["fc2.weight"] * half((5, 12)))
    assert all(t.external_data for t in onnx.load(target, load_external_data=False).graph.initializer)
    assert run(target, np.ones((1, 9), np.float32)).shape == (1, 5)


def test_the_data_that_is_read_is_not_written_over(tmp_path: Path) -> None:
    """A model renamed, and the output under its former name: its data has the name that the output's would get. Again,
    to the same place: only the output's own data is replaced."""
    source, target = tmp_path / "renamed.onnx", tmp_path / "model.onnx"
    onnx.save(mlp()[0], source, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for _ in range(2):
        write_kept(source, target, {"fc1": half((12, 9))})
        assert {name: (tmp_path / name).read_bytes() for name in before} == before
        assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*before, "model.onnx", "model.onnx.data1"])
    written = {t.name: numpy_helper.to_array(t) for t in onnx.load(target).graph.initializer}
    assert not written["fc1.weight"][~half((12, 9))].any()


def test_a_failure_leaves_an_older_output_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    onnx.save(mlp()[0], source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    write_kept(source, target, {"fc1": half((12, 9))})
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("effsparse_cli.formats.onnx.write._overwrite", fail)
    with pytest.raises(KeyboardInterrupt):
        write_kept(source, target, {"fc2": half((5, 12))})
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_a_model_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """A file with a hole: it takes no room on the disk."""
    rows = 70_000
    node = helper.make_node("MatMul", ["x", "big"], ["y"])
    content = model(graph([node], {"x": (1, 8192)}, ["y"]))
    big = TensorProto(name="big", data_type=TensorProto.FLOAT, dims=[8192, rows], data_location=TensorProto.EXTERNAL)
    big.external_data.add(key="location", value="big.bin")
    content.graph.initializer.append(big)
    source = saved(content, tmp_path)
    with (tmp_path / "big.bin").open("wb") as file:
        file.write(np.ones(rows, np.float32).tobytes())
        file.truncate(8192 * rows * 4)
    kept = np.zeros((8192, rows), bool)
    kept[0, ::2] = True
    write_kept(source, tmp_path / "target.onnx", {"big": kept})
    after = read(tmp_path / "target.onnx", LoadOptions()).layers["big"].kept()
    assert after.sum() == rows // 2


def test_a_mask_that_fits_nothing(tmp_path: Path) -> None:
    source = saved(mlp()[0], tmp_path)
    with pytest.raises(UsageError, match=r"no layer 'fc9'\. Its layers: fc1, fc2"):
        write_kept(source, tmp_path / "t.onnx", {"fc9": half((2, 2))})
    with pytest.raises(UsageError, match="has the shape"):
        write_kept(source, tmp_path / "t.onnx", {"fc1": half((2, 2))})
    with pytest.raises(UsageError, match="never overwritten"):
        write_kept(source, source, {})
    assert [file.name for file in tmp_path.iterdir()] == ["source.onnx"]
