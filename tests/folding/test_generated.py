"""Random small convolutional networks with padding, strides, groups, pooling, norms, shortcuts, functions that do not
keep zero and unknown operators: a repair does not change their outputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.folding.custom_ops import Acos, Exp, Twist
from tests.folding.trained import like_trained, repaired, repaired_behind_gates

CHANNELS = 4


class Block(nn.Module):
    def __init__(self, conv: nn.Module, norm: nn.Module, act: nn.Module, pool: nn.Module, shortcut: str) -> None:
        super().__init__()
        self.conv, self.norm, self.act, self.pool, self.shortcut = conv, norm, act, pool, shortcut

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.act(self.norm(self.conv(x)))
        if y.shape == x.shape and self.shortcut == "add":
            y = x + y
        if y.shape == x.shape and self.shortcut == "gate":
            y = x * torch.sigmoid(y)
        pooled: Tensor = self.pool(y) if min(y.shape[2:]) >= 2 else y
        return pooled


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    kernel = draw(st.integers(1, 3))
    conv = nn.Conv2d(
        CHANNELS, CHANNELS, kernel, stride=draw(st.integers(1, 2)), padding=draw(st.integers(kernel // 2, 1)),
        groups=draw(st.sampled_from([1, 2, CHANNELS])), bias=draw(st.booleans()),
        padding_mode=draw(st.sampled_from(["zeros", "zeros", "replicate"])),
    )  # fmt: skip
    norm = draw(st.sampled_from([nn.Identity, nn.BatchNorm2d]))(CHANNELS)
    act = draw(st.sampled_from([nn.Identity, nn.ReLU, nn.Sigmoid, nn.GELU, nn.Softplus, Acos, Exp, Twist]))()
    pool = draw(st.sampled_from([nn.Identity(), nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(2)]))
    return Block(conv, norm, act, pool, draw(st.sampled_from(["none", "add", "gate"])))


NETWORKS = given(st.lists(blocks(), min_size=2, max_size=4), st.floats(0.1, 0.6), st.integers(0, 999), st.booleans())


def check(middle: list[Block], density: float, seed: int, bias: bool) -> None:
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, 3, bias=bias))
    model = nn.Sequential(nn.Conv2d(2, CHANNELS, 1), nn.ReLU(), *middle, head).double()
    like_trained(model, density, seed)
    gates = any(block.shortcut == "gate" for block in middle)
    (repaired_behind_gates if gates else repaired)(model, torch.zeros(2, 2, 9, 9, dtype=torch.float64))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@NETWORKS
def test_some_networks(middle: list[Block], density: float, seed: int, bias: bool) -> None:
    check(middle, density, seed, bias)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@NETWORKS
def test_many_networks(middle: list[Block], density: float, seed: int, bias: bool) -> None:
    check(middle, density, seed, bias)
