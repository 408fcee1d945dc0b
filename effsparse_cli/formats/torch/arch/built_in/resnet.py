"""ResNet-18 for 64x64 images, with a 3x3 stem and no pooling after it, and ResNet-50 for ImageNet. The names are those
of torchvision, so that its checkpoints fit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Block = Callable[[int, int, int], nn.Module]


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
