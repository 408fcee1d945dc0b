"""The models whose pages are opened: made here with random weights and pruned at random, or samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import effsparse
from effsparse_cli.report.analysis.report import Report
from tests.torchvision_models import models

SAMPLES = Path(__file__).parents[2] / "sample_models"


def measure(model: nn.Module | Path, *shape: int) -> Report:
    x = torch.zeros(shape) if shape else None
    return effsparse.analyze(model, x, pictures=True, active_masks=True)


def pruned(model: nn.Module, density: float) -> nn.Module:
    """Set all weights to one or, at random, to zero, and everything else to one."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            kept = torch.rand(tensor.shape, generator=generator) < density if tensor.ndim > 1 else torch.tensor(True)
            tensor.copy_(kept)
    return model.eval()


def lenet_300_100() -> Report:
    return measure(SAMPLES / "lenet300_uniform99.pt")


def resnet_50() -> Report:
    with torch.device("meta"):
        model = models().resnet50()
    return measure(pruned(model.to_empty(device="cpu"), 0.002), 1, 3, 224, 224)


def vit() -> Report:
    sizes = {"num_layers": 6, "num_heads": 4, "hidden_dim": 64, "mlp_dim": 128, "num_classes": 10}
    model = models().VisionTransformer(32, 8, **sizes)
    return measure(pruned(model, 0.03), 1, 3, 32, 32)


def llama() -> Report:
    return measure(SAMPLES / "llama_tiny")


def disconnected() -> Report:
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 20), nn.ReLU(), nn.Linear(20, 10)]
    model = pruned(nn.Sequential(*layers), 0.1)
    with torch.no_grad():
        next(iter(model[3].parameters())).zero_()  # type: ignore[index]
    return measure(model, 1, 3, 8, 8)


MODELS: dict[str, Callable[[], Report]] = {
    "LeNet-300-100": lenet_300_100,
    "ResNet-50": resnet_50,
    "ViT": vit,
    "Llama": llama,
    "disconnected": disconnected,
}
