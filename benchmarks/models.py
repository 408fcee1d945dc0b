"""The models to measure, each with its input. Weights are random: only zeros matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from tests.torchvision_models import models


@dataclass(frozen=True)
class Case:
    """`attention`: the paper's pass is not defined for the model, so only the cost of such a pass is shown. `passes`:
    whether to measure the passes in torch, which can take minutes. `gib` is the memory that the comparison needs."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    attention: bool = False
    tokens: bool = False
    passes: bool = True
    gib: float = 2.0

    @property
    def example(self) -> torch.Tensor:
        return torch.ones(self.shape, dtype=torch.long if self.tokens else torch.float32)


def lenet() -> nn.Module:
    layers = nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10)
    return nn.Sequential(*layers)


def resnet18() -> nn.Module:
    """The paper's form for small images: a 3x3 stem and no first pooling."""
    model: nn.Module = models().resnet18(num_classes=200)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def vgg19() -> nn.Module:
    """The paper's form: one linear layer after the convolutions."""
    model: nn.Module = models().vgg19_bn(num_classes=100)
    model.avgpool = nn.AdaptiveAvgPool2d((1, 1))
    model.classifier = nn.Linear(512, 100)
    return model


def llama() -> nn.Module:
    """The sizes of Llama 3.2 1B, in bfloat16."""
    models()
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)  # type: ignore[no-any-return]


CASES = {
    "lenet": Case("LeNet-300-100", lenet, (1, 784)),
    "resnet18": Case("ResNet-18, 64x64", resnet18, (1, 3, 64, 64)),
    "resnet50": Case("ResNet-50, 224x224", lambda: models().resnet50(), (1, 3, 224, 224)),
    "vgg19": Case("VGG-19, 32x32", vgg19, (1, 3, 32, 32)),
    "mobilenetv2": Case("MobileNetV2, 224x224", lambda: models().mobilenet_v2(), (1, 3, 224, 224)),
    "densenet121": Case("DenseNet-121, 224x224", lambda: models().densenet121(), (1, 3, 224, 224)),
    "vit": Case("ViT-B/16, 224x224", lambda: models().vit_b_16(), (1, 3, 224, 224), attention=True, gib=4.0),
    "llama": Case("Llama 1B, 8 tokens", llama, (1, 8), attention=True, tokens=True, passes=False, gib=16.0),
}
