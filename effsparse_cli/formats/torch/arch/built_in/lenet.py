"""The two LeNets of the paper, as sequential models."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def lenet_300_100(num_classes: int = 10) -> nn.Module:
    """Build LeNet-300-100 for MNIST, flat or 28x28."""
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(784, 300),
            relu1=nn.ReLU(),
            fc2=nn.Linear(300, 100),
            relu2=nn.ReLU(),
            fc3=nn.Linear(100, num_classes),
        )
    )


def lenet_5(num_classes: int = 10) -> nn.Module:
    """Build LeNet-5 for CIFAR-10."""
    return nn.Sequential(
        OrderedDict(
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
    )
