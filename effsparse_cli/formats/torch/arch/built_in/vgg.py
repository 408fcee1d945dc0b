"""VGG-16 and VGG-19 for 32x32 images: convolutions with batch norm, five poolings, one linear layer. The names are
those of torchvision (`features.0`), except for the last layer (`classifier`)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

BLOCKS = (64, 128, 256, 512, 512)


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
