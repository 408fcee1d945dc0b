"""Large tensors stay in their file, and everything reads the same, error messages included."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import EffsparseError
from effsparse_cli.formats.onnx.external import is_external
from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.onnx.outline import LARGE, outline
from effsparse_cli.formats.onnx.parse import open_model
from effsparse_cli.formats.onnx.tensors.read import dense
from effsparse_cli.formats.options import LoadOptions
from tests.formats.onnx.models import read

SIZES = (9, 300, 200, 5)


def model(names: str = "w") -> ModelProto:
    """Return a model with one large weight. Names of any length move it to any position in the file."""
    rng = np.random.default_rng(0)
    shapes = list(pairwise(SIZES))
    weights = [(rng.normal(size=s) * (rng.random(s) < 0.3)).astype(np.float32) for s in shapes]
    stored = [numpy_helper.from_array(w, f"{names}{i}") for i, w in enumerate(weights)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"{names}{i}"], [f"x{i + 1}"]) for i in range(len(weights))]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, SIZES[i]]) for n, i in (("x0", 0), ("x3", -1))]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], stored))


def written(content: ModelProto | bytes, folder: Path) -> Path:
    file = folder / "m.onnx"
    file.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return file


@pytest.mark.parametrize("names", ["w", "ww", "www", "wwww"])
def test_outline_reads_the_same_model(names: str, tmp_path: Path) -> None:
    file = written(model(names), tmp_path)
    found = outline(file)
    assert found is not None
    assert [is_external(tensor) for tensor in found.graph.initializer] == [False, True, False]
    assert found.ByteSize() < LARGE
    large = found.graph.initializer[1]
    array = dense(large, file)[2]()
    assert array.flags.aligned
    large.ClearField("external_data")
    large.ClearField("data_location")
    large.raw_data = array.tobytes()
    assert found == open_model(file)


def test_other_files_have_no_outline(tmp_path: Path) -> None:
    short = model()
    short.graph.initializer[1].dims[0] += 1
    assert _external(outline(written(short, tmp_path))) == 0
    unknown = model()
    unknown.graph.initializer[1].data_type = 99
    assert outline(written(unknown, tmp_path)) is None
    typed = model()
    tensor = typed.graph.initializer[1]
    tensor.float_data.extend(numpy_helper.to_array(tensor).reshape(-1))
    tensor.ClearField("raw_data")
    assert _external(outline(written(typed, tmp_path))) == 0
    assert outline(tmp_path / "absent.onnx") is None
    assert outline(tmp_path) is None
    assert outline(written(b"", tmp_path)) is None


def _external(found: ModelProto | None) -> int:
    assert found is not None
    return sum(map(is_external, found.graph.initializer))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_files_give_the_same_error(seed: int, tmp_path: Path) -> None:
    """Bytes are changed near both ends of the large tensor, or the file is truncated."""
    rng = random.Random(seed)
    content = bytearray(model().SerializeToString())
    for _ in range(rng.randrange(1, 4)):
        edge = rng.choice([0, 11_000, len(content) - 6000])
        content[min(edge + rng.randrange(300), len(content) - 1)] = rng.randrange(256)
    if seed % 3 == 0:
        del content[rng.randrange(len(content)) :]
    file = written(bytes(content), tmp_path)
    assert _outcome(file, mapped=True) == _outcome(file, mapped=False)


def _outcome(file: Path, mapped: bool) -> Analysis | str:
    try:
        graph = read(file, LoadOptions()) if mapped else build(open_model(file), file, LoadOptions())[0]
        return analyze_graph(graph)
    except EffsparseError as error:
        return str(error)
