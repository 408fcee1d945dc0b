"""Inactive connections of ONNX models do not matter to onnxruntime: changed one at a time or all at once, they leave
every output bit as it was (except bias carriers). Active ones mostly do matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, helper, numpy_helper

from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.paths import find_paths
from sample_models import make
from tests.formats.onnx.exported import EXPORTERS
from tests.formats.onnx.models import read
from tests.formats.onnx.perturbed import Place, draw, moved

INPUTS = 4
STEPS = (3.0, -3.0, 300.0, -300.0)
MOSTLY = 0.5
Run = Callable[..., list[NDArray[np.float32]]]


def with_open_weights(model: ModelProto, names: set[str]) -> onnxruntime.InferenceSession:
    """Return a session in which stored weights can be replaced in each run."""
    for tensor in model.graph.initializer:
        if tensor.name in names:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def runner(path: Path, stored_names: dict[str, str]) -> Run:
    """Return a function that computes outputs for several random inputs, with `step` added to some weights."""
    model = onnx.load(path)
    stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    session = with_open_weights(model, set(stored_names.values()))
    feeds = [_inputs(session, set(stored), seed) for seed in range(INPUTS)]

    def run(places: list[Place], step: float = 3.0) -> list[NDArray[np.float32]]:
        changed: dict[str, NDArray[np.float32]] = {}
        for layer, position in places:
            name = stored_names[layer]
            changed.setdefault(name, stored[name].copy()).reshape(-1)[position] += step
        return [output for feed in feeds for output in session.run(None, {**feed, **changed})]

    return run


def _inputs(session: onnxruntime.InferenceSession, stored: set[str], seed: int) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    feeds: dict[str, NDArray[Any]] = {}
    for value in session.get_inputs():
        if value.type == "tensor(int64)":
            feeds[value.name] = random.integers(0, 64, value.shape)
        elif value.name not in stored:
            feeds[value.name] = (random.normal(size=value.shape) * 2).astype(np.float32)
    return feeds


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", [name for name in make.MODELS if name != "figure1.pt"])
def test_sample_models(
    name: str, exporter: str, exported: Callable[[str, str], Path], record_property: Callable[[str, object], None]
) -> None:
    path = exported(name, exporter)
    graph = read(path, LoadOptions())
    found = find_paths(graph)
    stored_names = {layer: str(key[-1]) for key, layer in layer_names(onnx.load(path)).items() if layer in graph.layers}
    layers = [layer for layer in graph.layers if not graph.layers[layer].embedding]
    kept, active, carrier = ({n: found[n].mask(kind) for n in layers} for kind in ("kept", "active", "carrier"))
    run = runner(path, stored_names)
    before = run([])
    inactive = draw({n: kept[n] & ~active[n] & ~carrier[n] for n in layers}, seed=1)
    for place in inactive:
        assert not moved(before, run([place])), place
    assert not moved(before, run(inactive))
    drawn = draw(active, seed=2)
    live = sum(any(moved(before, run([place], step)) for step in STEPS) for place in drawn)
    assert live >= MOSTLY * len(drawn)
    record_property("witness: ONNX samples, inactive weights confirmed by onnxruntime", len(inactive))
    record_property("witness: ONNX samples, active weights that moved an output", live)
    record_property("witness: ONNX samples, active weights changed", len(drawn))
