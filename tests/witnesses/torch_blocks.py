"""Torch modules for generated networks that torch.nn lacks: branches, gates, attention written out, and wrappers that
give recurrent layers and attention one input and one output."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)  # type: ignore[no-any-return]


class Branches(nn.Module):
    """Branches concatenated along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class SqueezeExcite(nn.Module):
    """Channels scaled by a small network of their means."""

    def __init__(self, channels: int, middle: int, gate: nn.Module, bias: bool) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(channels, middle, bias), nn.Linear(middle, channels, bias)
        self.act, self.gate = nn.SiLU(), gate

    def forward(self, x: Tensor) -> Tensor:
        squeezed = x.flatten(2).mean(2)
        scale: Tensor = self.gate(self.up(self.act(self.down(squeezed))))
        return x * scale.reshape(*scale.shape, *[1] * (x.dim() - 2))


class GatedUnit(nn.Module):
    """One projection gated by another: the feed-forward layer of many language models."""

    def __init__(self, width: int, middle: int, gate: nn.Module, bias: bool) -> None:
        super().__init__()
        self.value, self.key = nn.Linear(width, middle, bias), nn.Linear(width, middle, bias)
        self.out, self.gate = nn.Linear(middle, width, bias), gate

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.value(x) * self.gate(self.key(x)))  # type: ignore[no-any-return]


class SelfAttention(nn.Module):
    """Heads, softmax and a causal mask written out."""

    def __init__(self, width: int, heads: int, causal: bool, bias: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width, bias), nn.Linear(width, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * 0.7
        if self.causal:
            above = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(above, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed)  # type: ignore[no-any-return]


class TorchAttention(nn.Module):
    def __init__(self, width: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x, need_weights=False)[0]  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """All steps of a recurrent layer, or only the last."""

    def __init__(self, inner: nn.RNNBase, last: bool) -> None:
        super().__init__()
        self.inner, self.last = inner, last

    def forward(self, x: Tensor) -> Tensor:
        steps = self.inner(x)[0]
        return steps[:, -1:] if self.last else steps  # type: ignore[no-any-return]


class Positions(nn.Module):
    """A learned constant added to every step: a bias, not a connection."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class OverTime(nn.Module):
    """Apply a module for [batch, channels, steps] to [batch, steps, channels]."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.transpose(1, 2)).transpose(1, 2)  # type: ignore[no-any-return]


class Mean(nn.Module):
    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(self.dims)
