"""MobileNetV2 for ImageNet: inverted residuals around depthwise convolutions. The names are those of torchvision, so
that its checkpoints fit."""

from __future__ import annotations

import torch
from torch import nn

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks, stride of the first block: Table 2 of the MobileNetV2 paper."""


def mobilenet_v2(num_classes: int = 1000) -> nn.Module:
    return MobileNet(num_classes)


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
    def __init__(self, num_classes: int) -> None:
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
