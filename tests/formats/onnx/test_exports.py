"""A torch model and its ONNX exports, by both exporters, have the same active connections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.graph.verify import verify
from effsparse_cli.paths import find_paths
from sample_models import make
from tests.formats.onnx.exported import EXPORTERS, export
from tests.formats.onnx.models import read
from tests.formats.onnx.probes import opaque_labels
from tests.torchvision_models import models

TORCHVISION = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3",
    "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf",
    "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_0", "swin_t",
    "vgg11", "vit_b_16",
)  # fmt: skip
SPARSITY = 0.97
Exported = Callable[[str, str], Path]


def active(graph: Graph) -> dict[str, Bools]:
    verify(graph)
    assert list(opaque_labels(graph)) == []
    paths = find_paths(graph)
    return {name: paths[name].mask("active") for name in graph.layers}


def compare(model: nn.Module, example: Tensor, path: Path) -> None:
    expected = active(from_module(model, (example,), None, LoadOptions()))
    found = active(read(path, LoadOptions()))
    for name, mask in expected.items():
        # An exporter may transpose a matrix, and concatenate the weights of a recurrent layer.
        if name in found and found[name].shape in (mask.shape, mask.shape[::-1]):
            assert np.array_equal(found[name], mask) or np.array_equal(found[name].T, mask), name
    assert sum(int(m.sum()) for m in found.values()) == sum(int(m.sum()) for m in expected.values())
    assert sum(m.size for m in found.values()) == sum(m.size for m in expected.values())


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", make.MODELS)
def test_sample_models(name: str, exporter: str, exported: Exported) -> None:
    compare(make.build(name), make.MODELS[name][1], exported(name, exporter))


@pytest.mark.parametrize("name", make.MODELS)
def test_models_optimized_by_onnxruntime(name: str, tmp_path: Path, exported: Exported) -> None:
    """onnxruntime's optimizer fuses layers into its own operators; the network is still the same."""
    path = exported(name, "script")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(path), options)
    before, after = (active(read(file, LoadOptions())) for file in (path, tmp_path / "optimized.onnx"))
    assert sum(int(m.sum()) for m in after.values()) == sum(int(m.sum()) for m in before.values())
    assert sum(m.size for m in after.values()) == sum(m.size for m in before.values())


@pytest.mark.slow
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_models(name: str, exporter: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = getattr(models(), name)(weights=None, **more).eval()
    make.prune(model, make.uniform(1 - SPARSITY), seed=0)
    size = 299 if name == "inception_v3" else 224
    example = torch.zeros(1, 3, size, size)
    compare(model, example, export(model, example, tmp_path / "model.onnx", exporter))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_layer_names_are_module_names(exporter: str, exported: Exported) -> None:
    """If an exporter renamed a weight, the name of its module is recovered."""
    graph = read(exported("transformer_tiny.pt2", exporter), LoadOptions())
    assert {"tokens", "head", "encoder.layers.0.linear1", "encoder.layers.1.self_attn.out_proj"} <= set(graph.layers)
