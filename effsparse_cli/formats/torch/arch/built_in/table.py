"""The built-in models by the names that --arch accepts, each with its usual input shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from effsparse_cli.formats.torch.arch.built_in.lenet import lenet_5, lenet_300_100
from effsparse_cli.formats.torch.arch.built_in.mobilenet import mobilenet_v2
from effsparse_cli.formats.torch.arch.built_in.resnet import resnet18_tiny, resnet50
from effsparse_cli.formats.torch.arch.built_in.vgg import vgg16, vgg19
from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True)
class BuiltIn:
    make: Callable[..., nn.Module]
    shape: Shape


BUILT_IN: dict[str, BuiltIn] = {
    "lenet-300-100": BuiltIn(lenet_300_100, (1, 784)),
    "lenet-5": BuiltIn(lenet_5, (1, 3, 32, 32)),
    "vgg16-cifar": BuiltIn(vgg16, (1, 3, 32, 32)),
    "vgg19-cifar": BuiltIn(vgg19, (1, 3, 32, 32)),
    "resnet18-tiny": BuiltIn(resnet18_tiny, (1, 3, 64, 64)),
    "resnet50": BuiltIn(resnet50, (1, 3, 224, 224)),
    "mobilenet-v2": BuiltIn(mobilenet_v2, (1, 3, 224, 224)),
}
