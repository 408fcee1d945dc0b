"""Models built in by name: the LeNets and VGGs of the paper, ResNet-18 for 64x64 images, and ResNet-50 and MobileNetV2
for ImageNet. Names are those of torchvision where it has the model, so that its checkpoints fit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from effsparse_cli.formats.architectures import ARCHITECTURES
from effsparse_cli.graph.primitives import Shape

BLOCKS = (64, 128, 256, 512, 512)
Block = Callable[[int, int, int], nn.Module]
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks, stride of the first block: Table 2 of the MobileNetV2 paper."""


def lenet_300_100(num_classes: int = 10, batch_norm: bool = False) -> nn.Module:
    """Build LeNet-300-100 for MNIST, flat or 28x28. The paper trains it with batch norm."""
    layers = OrderedDict[str, nn.Module](
        flatten=nn.Flatten(),
        fc1=nn.Linear(784, 300),
        relu1=nn.ReLU(),
        fc2=nn.Linear(300, 100),
        relu2=nn.ReLU(),
        fc3=nn.Linear(100, num_classes),
    )
    return nn.Sequential(_add_norms(layers) if batch_norm else layers)


def lenet_5(num_classes: int = 10, batch_norm: bool = False) -> nn.Module:
    """Build LeNet-5 for CIFAR-10. The paper trains it with batch norm."""
    layers = OrderedDict[str, nn.Module](
        conv1=nn.Conv2d(3, 6, 5),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(400, 120),
        relu3=nn.ReLU(),
        fc2=nn.Linear(120, 84),
        relu4=nn.ReLU(),
        fc3=nn.Linear(84, num_classes),
    )
    return nn.Sequential(_add_norms(layers) if batch_norm else layers)


def _add_norms(layers: OrderedDict[str, nn.Module]) -> OrderedDict[str, nn.Module]:
    """Return the layers with a batch norm before each ReLU, numbered like the ReLU."""
    result = OrderedDict[str, nn.Module]()
    norm: nn.Module = nn.Identity()
    for name, layer in layers.items():
        if isinstance(layer, nn.Conv2d):
            norm = nn.BatchNorm2d(layer.out_channels)
        elif isinstance(layer, nn.Linear):
            norm = nn.BatchNorm1d(layer.out_features)
        elif isinstance(layer, nn.ReLU):
            result[name.replace("relu", "bn")] = norm
        result[name] = layer
    return result


def vgg16(num_classes: int = 10, bias: bool = True) -> nn.Module:
    return _vgg((2, 2, 3, 3, 3), num_classes, bias)


def vgg19(num_classes: int = 100, bias: bool = True) -> nn.Module:
    return _vgg((2, 2, 4, 4, 4), num_classes, bias)


def _vgg(depths: tuple[int, ...], num_classes: int, bias: bool) -> nn.Module:
    """Build a VGG; `bias` is for the convolutions, where some code omits it because the batch norm has one."""
    layers: list[nn.Module] = []
    channels = 3
    for width, depth in zip(BLOCKS, depths, strict=True):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=bias), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        OrderedDict(features=nn.Sequential(*layers), flatten=nn.Flatten(), classifier=nn.Linear(channels, num_classes))
    )


def resnet18_tiny(num_classes: int = 200) -> nn.Module:
    stem = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    return ResNet(stem, nn.Identity(), Basic, (2, 2, 2, 2), 1, num_classes)


def resnet50(num_classes: int = 1000) -> nn.Module:
    stem = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
    return ResNet(stem, nn.MaxPool2d(3, 2, 1), Bottleneck, (3, 4, 6, 3), 4, num_classes)


class Basic(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.bn2(self.conv2(y)) + shortcut)


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.bn3(self.conv3(y)) + shortcut)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    if inputs == outputs and stride == 1:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    def __init__(
        self, stem: nn.Module, pool: nn.Module, block: Block, depths: tuple[int, ...], widening: int, num_classes: int
    ) -> None:
        super().__init__()
        self.conv1, self.bn1, self.maxpool = stem, nn.BatchNorm2d(64), pool
        channels, stages = 64, []
        for stage, depth in enumerate(depths):
            width, blocks = 64 << stage, []
            for i in range(depth):
                blocks.append(block(channels, width, 2 if stage and not i else 1))
                channels = width * widening
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))  # type: ignore[no-any-return]


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        widen = [_conv(inputs, inner)] if expansion > 1 else []
        narrow = (nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.conv = nn.Sequential(*widen, _conv(inner, inner, 3, stride, groups=inner), *narrow)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return x + y if self.has_shortcut else y  # type: ignore[no-any-return]


class MobileNet(nn.Module):
    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        layers, channels = [_conv(3, 32, 3, stride=2)], 32
        for expansion, outputs, blocks, first in STAGES:
            for i in range(blocks):
                layers.append(InvertedResidual(channels, outputs, first if i == 0 else 1, expansion))
                channels = outputs
        self.features = nn.Sequential(*layers, _conv(channels, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, num_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean(dim=(2, 3)))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class BuiltIn:
    make: Callable[..., nn.Module]
    shape: Shape


BUILT_IN = {name: BuiltIn(globals()[each.function], each.shape) for name, each in ARCHITECTURES.items()}
