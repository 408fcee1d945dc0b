"""Whole models: samples, torchvision and Hugging Face, with biases and statistics like those of trained models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from effsparse_cli.folding.decide import NOT_UNIFORM
from effsparse_cli.folding.execute import repair_file
from effsparse_cli.folding.rounds import NOT_FOLLOWED
from effsparse_cli.formats import open_model_file
from sample_models.make import MODELS, build
from tests.folding.trained import like_trained, repaired
from tests.formats.onnx.exported import export
from tests.torchvision_models import models

SIZES = {"resnet18": 32, "inception_v3": 75, "alexnet": 64, "vit_b_32": 224, "swin_t": 64}
DENSITIES = {
    "alexnet": 0.002,
    "resnet18": 0.003,
    "resnet50": 0.01,
    "vgg11": 0.003,
    "swin_t": 0.01,
    "vit_b_32": 0.003,
    "regnet_x_400mf": 0.02,
}
LARGE = [
    "alexnet", "densenet121", "efficientnet_b0", "googlenet", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small",
    "regnet_x_400mf", "resnet50", "shufflenet_v2_x0_5", "swin_t", "vgg11", "vit_b_32",
]  # fmt: skip


def sample(name: str, dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
    model, example = build(name), MODELS[name][1]
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=dice) * 0.3)
    return model.to(dtype), example.to(dtype) if example.is_floating_point() else example


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MODELS)
def test_samples(name: str, dtype: torch.dtype) -> None:
    model, example = sample(name, dtype)
    done = repaired(model, example)
    assert done.removed > 0
    assert {each.reason for each in done.left} <= {NOT_UNIFORM, NOT_FOLLOWED}


@pytest.mark.parametrize("name", MODELS)
def test_samples_as_onnx_are_repaired_alike(name: str, tmp_path: Path) -> None:
    model, example = sample(name, torch.float32)
    file = export(model, example, tmp_path / "model.onnx", "script")
    done, _ = repair_file(open_model_file(file, to_change=True))
    ours = repaired(model, example)
    assert done.before.totals.active == done.after.totals.active == ours.after.totals.active
    assert sum(each.connections for each in done.left) == done.after.totals.inactive
    assert done.difference <= 1e-4 * done.scale
    assert done.after.totals.kept <= ours.after.totals.kept


def vision(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = models().get_model(name, weights=None, **more)
    like_trained(model, DENSITIES.get(name, 0.05))
    size = SIZES.get(name, 64)
    done = repaired(model.to(dtype), torch.zeros(1, 3, size, size, dtype=dtype))
    assert done.removed > 0
    assert {each.reason for each in done.left} <= {NOT_UNIFORM}


@pytest.mark.parametrize(("name", "dtype"), [("squeezenet1_1", torch.float64), ("resnet18", torch.float32)])
def test_two_of_torchvision(name: str, dtype: torch.dtype) -> None:
    vision(name, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LARGE)
def test_many_of_torchvision(name: str, dtype: torch.dtype) -> None:
    vision(name, dtype)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "gpt2" else pytest.mark.slow) for n in ("bert", "gpt2", "llama", "vit")]
)
def test_transformers(name: str) -> None:
    from tests.formats.torch.test_transformers import MODELS as HUGGING_FACE

    model, args, kwargs = HUGGING_FACE[name]()
    like_trained(model.double(), 0.08)
    args = tuple(arg.double() if arg.is_floating_point() else arg for arg in args)
    done = repaired(model, *args, **kwargs)
    assert done.removed > 0
    assert np.isfinite(done.scale)
