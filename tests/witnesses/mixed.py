"""Small torch networks whose stored weights are mixed, scaled or looked up before an operator uses them. Each has two
such layers, so that zeros stored in either can make connections inactive."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

WIDTHS = (4, 6, 3)
Weigh = Callable[[Any], Tensor]
Wrap = Callable[[Any], object]


class Weighted(nn.Module):
    """A linear layer or 3x3 convolution with a weight that `weigh` computes from the module's parameters."""

    def __init__(self, fan_in: int, fan_out: int, weigh: Weigh, conv: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in, *((3, 3) if conv else ())))
        self.bias = nn.Parameter(torch.empty(fan_out))
        self.gain = nn.Parameter(torch.empty(fan_out))
        self.other = nn.Parameter(torch.empty_like(self.weight))
        self.down = nn.Parameter(torch.empty(2, fan_in))
        self.up = nn.Parameter(torch.empty(fan_out, 2))
        self.square = nn.Parameter(torch.empty(fan_in, fan_in))
        self.codes = nn.Parameter(torch.empty(5))
        self.register_buffer("choice", torch.arange(self.weight.numel()).reshape(self.weight.shape) % 5)
        self.weigh, self.conv = weigh, conv

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weigh(self)
        return F.conv2d(x, weight, self.bias, padding=1) if self.conv else F.linear(x, weight, self.bias)


def _standardized(m: Any) -> Tensor:
    axes = tuple(range(1, m.weight.ndim))
    centred = m.weight - m.weight.mean(dim=axes, keepdim=True)
    scaled: Tensor = centred / (m.weight.var(dim=axes, keepdim=True, unbiased=False) + 1e-5).sqrt()
    return scaled


def _by_batch_norm(m: Any) -> Tensor:
    flat = m.weight.reshape(1, m.weight.shape[0], -1)
    return F.batch_norm(flat, None, None, m.gain, training=True).reshape(m.weight.shape)


def _by_layer_norm(m: Any) -> Tensor:
    return F.layer_norm(m.weight, m.weight.shape[1:])


def _fake_quantized(m: Any) -> Tensor:
    scale = m.weight.abs().amax() / 7 + 1e-8
    whole: Tensor = torch.round(m.weight / scale) * scale
    return whole


def _torch_fake_quantized(m: Any) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(m.weight, 0.25, 0, -8, 7)


@torch.library.custom_op("witness::blur", mutates_args=())
def blur(weight: Tensor) -> Tensor:
    """A custom operator without a rule: each element is the sum of its row."""
    return weight + weight.sum(dim=1, keepdim=True)


@blur.register_fake
def _(weight: Tensor) -> Tensor:
    return torch.empty_like(weight)


WEIGHED: dict[str, tuple[Weigh, bool]] = {
    "standardized by hand": (_standardized, True),
    "standardized by batch norm": (_by_batch_norm, True),
    "standardized by layer norm": (_by_layer_norm, False),
    "low rank": (lambda m: m.up @ m.down, False),
    "low rank added": (lambda m: m.weight + 0.5 * (m.up @ m.down), False),
    "product of two": (lambda m: m.weight @ m.square, False),
    "average of two": (lambda m: (m.weight + m.other) / 2, False),
    "elementwise product of two": (lambda m: m.weight * m.other, False),
    "softplus": (lambda m: F.softplus(m.weight), False),
    "tanh": (lambda m: torch.tanh(m.weight), False),
    "gain per row": (lambda m: m.weight * m.gain[:, None], False),
    "softmax of rows": (lambda m: m.weight.softmax(-1), False),
    "normalized rows": (lambda m: F.normalize(m.weight, dim=1), False),
    "scaled by its own maximum": (_fake_quantized, False),
    "fake quantized": (_torch_fake_quantized, False),
    "minus its mean": (lambda m: m.weight - m.weight.mean(), False),
    "cumulative": (lambda m: m.weight.cumsum(1), False),
    "sorted": (lambda m: m.weight.sort(dim=1)[0], False),
    "symmetric": (lambda m: m.weight @ m.square @ m.square.T, False),
    "codebook": (lambda m: m.codes[m.choice], False),
    "codebook gathered": (lambda m: m.codes.index_select(0, m.choice.reshape(-1)).reshape(m.weight.shape), False),
    "kronecker": (lambda m: torch.kron(m.up[: m.up.shape[0] // 3], m.square[:3, : m.weight.shape[1] // 2]), False),
    "two rows swapped and added": (lambda m: m.weight + m.weight.flip(0), False),
    "unknown operator": (lambda m: torch.ops.witness.blur(m.weight), False),
    "masked by its own size": (lambda m: m.weight * (m.weight.abs() > m.weight.abs().mean()), False),
    "matrix exponential": (lambda m: m.weight @ torch.linalg.matrix_exp(m.square - m.square.T), False),
    "einsum of two": (lambda m: torch.einsum("or,ri->oi", m.up, m.down), False),
    "hypernetwork": (lambda m: F.linear(m.down.T, m.up).T.contiguous(), False),
    "mixture of kernels": (
        lambda m: torch.einsum("k,koi->oi", m.codes[:2].softmax(0), torch.stack([m.weight, m.other])),
        False,
    ),
}


class Plain(nn.Module):
    """Two layers with a norm between them; `wrap` parametrizes each layer."""

    def __init__(self, layer: Callable[[int, int], nn.Module], conv: bool, wrap: Wrap) -> None:
        super().__init__()
        self.first, self.second = layer(WIDTHS[0], WIDTHS[1]), layer(WIDTHS[1], WIDTHS[2])
        self.norm = nn.BatchNorm2d(WIDTHS[1]) if conv else nn.BatchNorm1d(WIDTHS[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrap(self.first), wrap(self.second)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(torch.tanh(self.norm(self.first(x))))
        return out


class Orthogonal(nn.Module):
    """Cayley's map of a square weight."""

    def forward(self, weight: Tensor) -> Tensor:
        skew = weight - weight.T
        eye = torch.eye(len(weight), dtype=weight.dtype)
        rotation: Tensor = torch.linalg.solve(eye + skew, eye - skew)
        return rotation


def _linear(fan_in: int, fan_out: int) -> nn.Module:
    return nn.Linear(fan_in, fan_out)


def _conv(fan_in: int, fan_out: int) -> nn.Module:
    return nn.Conv2d(fan_in, fan_out, 3, padding=1)


def _square(fan_in: int, fan_out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(fan_in, fan_out), nn.Linear(fan_out, fan_out))


class Softplus(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return F.softplus(weight)


WRAPPED: dict[str, tuple[Callable[[int, int], nn.Module], Wrap]] = {
    "weight norm, hook": (_conv, lambda m: nn.utils.weight_norm(m)),
    "weight norm, hook, whole": (_linear, lambda m: nn.utils.weight_norm(m, dim=None)),  # type: ignore[arg-type]
    "weight norm, parametrization": (_conv, parametrizations.weight_norm),
    "weight norm, over columns": (_linear, lambda m: parametrizations.weight_norm(m, dim=1)),
    "spectral norm, hook": (_conv, lambda m: nn.utils.spectral_norm(m)),
    "spectral norm, parametrization": (_linear, parametrizations.spectral_norm),
    "orthogonal, parametrization": (_square, lambda m: parametrizations.orthogonal(m[1])),
    "orthogonal by hand": (_square, lambda m: parametrize.register_parametrization(m[1], "weight", Orthogonal())),
    "softplus, parametrization": (_linear, lambda m: parametrize.register_parametrization(m, "weight", Softplus())),
}
NAMES = (*WEIGHED, *WRAPPED)


def build(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """Return the network in evaluation mode and float64 with random parameters, and an input for it."""
    torch.manual_seed(seed)
    if name in WEIGHED:
        weigh, conv = WEIGHED[name]
        model: nn.Module = Plain(lambda a, b: Weighted(a, b, weigh, conv), conv, lambda _: None)
    else:
        layer, wrap = WRAPPED[name]
        conv = layer is _conv
        model = Plain(layer, conv, wrap)
    return model.double().eval(), torch.randn(2, WIDTHS[0], *((5, 5) if conv else ()), dtype=torch.float64)
