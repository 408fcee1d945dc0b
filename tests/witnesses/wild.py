"""Networks as people write them, one line each: shared, sliced and computed weights, recurrent cells and states, many
forms of attention, mixtures of experts. Name -> (function that makes it, function that draws an input)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

Draw = Callable[[Generator], Tensor]


class Called(nn.Module):
    """Named modules and a function that applies them."""

    def __init__(self, do: Callable[[Any, Tensor], Tensor], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.do = do
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, Tensor) else part)

    def forward(self, x: Tensor) -> Tensor:
        return self.do(self, x)


class Symmetric(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w.triu() + w.triu(1).transpose(-1, -2)


def reals(*shape: int) -> Draw:
    return lambda source: torch.randn(shape, generator=source, dtype=torch.float64)


def words(*shape: int) -> Draw:
    return lambda source: torch.randint(5, shape, generator=source)


def symmetric() -> nn.Module:
    inner = nn.Linear(4, 4)
    parametrize.register_parametrization(inner, "weight", Symmetric())
    return nn.Sequential(inner, nn.Tanh(), nn.Linear(4, 2))


def tied() -> nn.Module:
    table, head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    head.weight = table.weight
    return nn.Sequential(table, nn.Linear(4, 4), nn.Tanh(), head)


def unrolled(m: Any, x: Tensor) -> Tensor:
    h = torch.zeros(2, 3, dtype=x.dtype)
    for t in range(3):
        h = torch.tanh(m.w(h) + m.u(x[:, t]))
    return h


def experts(m: Any, x: Tensor) -> Tensor:
    score, which = m.gate(x).topk(2, -1)
    share = torch.zeros(2, 3, dtype=x.dtype).scatter(1, which, score.softmax(-1))
    return torch.stack([share[:, i : i + 1] * expert(x) for i, expert in enumerate(m.experts)]).sum(0)


def rotated(m: Any, x: Tensor) -> Tensor:
    angle = torch.arange(4, dtype=x.dtype)
    q, k = m.q(x), m.k(x)
    turned = q * torch.cos(angle) + torch.cat([-q[..., 2:], q[..., :2]], -1) * torch.sin(angle)
    return torch.matmul(turned, k.transpose(1, 2))


def with_class_token(m: Any, x: Tensor) -> Tensor:
    tokens = torch.cat([m.token.expand(2, -1, -1), x], 1)
    return m.out(m.attention(tokens, tokens, tokens)[0][:, 0])  # type: ignore[no-any-return]


WILD: dict[str, tuple[Callable[[], nn.Module], Draw]] = {
    "tied embedding": (tied, words(2, 3)),
    "one layer twice": (lambda: Called(lambda m, x: m.a(torch.tanh(m.a(x))), a=nn.Linear(4, 4)), reals(2, 4)),
    "transposed use": (lambda: Called(lambda m, x: torch.tanh(m.a(x)) @ m.a.weight, a=nn.Linear(4, 3)), reals(2, 4)),
    "slices of a weight": (
        lambda: Called(lambda m, x: F.linear(x, m.w[1:3]) + F.linear(x[:, :2], m.w[:2, ::2]), w=torch.randn(4, 4)),
        reals(2, 4),
    ),
    "matrices on both sides": (
        lambda: Called(lambda m, x: m.w @ torch.tanh(x @ m.v), w=torch.randn(2, 3), v=torch.randn(4, 4)),
        reals(2, 3, 4),
    ),
    "batched weights": (
        lambda: Called(
            lambda m, x: torch.einsum("bgi,goi->bgo", x, m.w).flatten(1) @ m.v,
            w=torch.randn(3, 2, 4), v=torch.randn(6, 2),
        ),
        reals(2, 3, 4),
    ),
    "bilinear": (
        lambda: Called(lambda m, x: m.b(torch.tanh(m.a(x)), x), a=nn.Linear(4, 3), b=nn.Bilinear(3, 4, 2)),
        reals(2, 4),
    ),
    "low rank beside": (
        lambda: Called(
            lambda m, x: m.o(torch.tanh(m.a(x) + m.u(m.d(x)))),
            a=nn.Linear(4, 4), d=nn.Linear(4, 2, False), u=nn.Linear(2, 4, False), o=nn.Linear(4, 2),
        ),
        reals(2, 4),
    ),
    "scaled rows": (
        lambda: Called(lambda m, x: F.linear(x, m.w * m.g[:, None]), w=torch.randn(4, 4), g=torch.randn(4)),
        reals(2, 4),
    ),
    "symmetric weight": (symmetric, reals(2, 4)),
    "bag of words": (lambda: nn.Sequential(nn.EmbeddingBag(5, 3, mode="sum"), nn.Linear(3, 2)), words(2, 3)),
    "padding word": (lambda: nn.Sequential(nn.Embedding(5, 3, padding_idx=0), nn.Linear(3, 2)), words(2, 3)),
    "lstm from states": (
        lambda: Called(
            lambda m, x: m.o(m.l(x, (m.h(x[:, 0])[None], m.h(x[:, 1])[None]))[1][1][0]),
            l=nn.LSTM(4, 3, batch_first=True), h=nn.Linear(4, 3), o=nn.Linear(3, 2),
        ),
        reals(2, 3, 4),
    ),
    "lstm projected, first step": (
        lambda: Called(lambda m, x: m.l(x)[0][0], l=nn.LSTM(4, 3, 2, bidirectional=True, proj_size=2)),
        reals(3, 2, 4),
    ),
    "gru, final states": (
        lambda: Called(lambda m, x: m.o(m.l(x)[1]), l=nn.GRU(4, 3, 2, bidirectional=True), o=nn.Linear(3, 2)),
        reals(3, 2, 4),
    ),
    "lstm cell": (lambda: Called(lambda m, x: m.c(x[1], m.c(x[0]))[0], c=nn.LSTMCell(4, 3)), reals(2, 2, 4)),
    "gru cell": (lambda: Called(lambda m, x: m.c(x[1], m.c(x[0])), c=nn.GRUCell(4, 3)), reals(2, 2, 4)),
    "unrolled by hand": (
        lambda: Called(unrolled, w=nn.Linear(3, 3, False), u=nn.Linear(4, 3, False)),
        reals(2, 3, 4),
    ),
    "cross attention": (
        lambda: Called(
            lambda m, x: m.m(x, m.k(x), x)[0],
            m=nn.MultiheadAttention(4, 2, kdim=3, vdim=4, batch_first=True), k=nn.Linear(4, 3),
        ),
        reals(2, 3, 4),
    ),
    "attention with its weights": (
        lambda: Called(
            lambda m, x: torch.cat([y.flatten() for y in m.m(x, x, x)]),
            m=nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True),
        ),
        reals(3, 2, 4),
    ),
    "attention with padding": (
        lambda: Called(
            lambda m, x: m.m(x, x, x, key_padding_mask=torch.tensor([[False, False, True]] * 2))[0],
            m=nn.MultiheadAttention(4, 2, batch_first=True),
        ),
        reals(2, 3, 4),
    ),
    "class token": (
        lambda: Called(
            with_class_token,
            token=torch.randn(1, 1, 4), attention=nn.MultiheadAttention(4, 1, batch_first=True), out=nn.Linear(4, 2),
        ),
        reals(2, 3, 4),
    ),
    "rotary scores": (lambda: Called(rotated, q=nn.Linear(4, 4), k=nn.Linear(4, 4)), reals(2, 3, 4)),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3, batch_first=True), 2),
        reals(2, 3, 4),
    ),
    "decoder": (
        lambda: Called(lambda m, x: m.d(x, x[:, :2]), d=nn.TransformerDecoderLayer(4, 2, 3, batch_first=True)),
        reals(2, 3, 4),
    ),
    "experts": (
        lambda: Called(experts, gate=nn.Linear(4, 3), experts=nn.ModuleList([nn.Linear(4, 3) for _ in range(3)])),
        reals(2, 4),
    ),
    "convolution made by the input": (
        lambda: Called(
            lambda m, x: F.conv1d(x.reshape(1, -1, 4), m.g(x.mean(2)).reshape(6, 3, 2), groups=2), g=nn.Linear(3, 18)
        ),
        reals(2, 3, 4),
    ),
    "even kernels, same padding": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, (2, 4), padding="same", dilation=(2, 1)), nn.Tanh(),
            nn.Conv2d(3, 2, 3, stride=(2, 1), padding=(0, 1), padding_mode="reflect"),
        ),
        reals(1, 2, 4, 5),
    ),
    "transposed, uneven": (
        lambda: nn.Sequential(
            nn.ConvTranspose2d(2, 4, 3, (2, 3), 1, (1, 2), groups=2, dilation=(1, 2)), nn.Tanh(), nn.Conv2d(4, 2, 3, 3)
        ),
        reals(1, 2, 3, 3),
    ),
    "unbatched": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2, ceil_mode=True), nn.Conv2d(3, 2, 2)
        ),
        reals(2, 5, 5),
    ),
    "shuffled groups": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 4, 1, groups=2), nn.ChannelShuffle(2), nn.Conv2d(4, 4, 3, groups=4, padding=1), nn.Tanh(),
            nn.Conv2d(4, 2, 1),
        ),
        reals(1, 4, 2, 2),
    ),
    "patches": (
        lambda: Called(lambda m, x: m.a(F.unfold(x, 3, padding=1, stride=2).transpose(1, 2)), a=nn.Linear(18, 2)),
        reals(1, 2, 4, 4),
    ),
    "resized": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 2, 1), nn.Upsample(size=(5, 3), mode="bilinear", align_corners=True), nn.Conv2d(2, 2, 2, 2)
        ),
        reals(1, 2, 3, 4),
    ),
    "slopes per channel": (
        lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.PReLU(4), nn.Conv1d(4, 2, 1)),
        reals(2, 3, 5),
    ),
    "instance norm with statistics": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 1), nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.Conv2d(4, 2, 1)
        ),
        reals(1, 3, 2, 2),
    ),
    "layer scale": (
        lambda: Called(lambda m, x: x + m.g * m.a(x), a=nn.Linear(4, 4), g=torch.randn(4)),
        reals(2, 4),
    ),
    "gate of a constant": (
        lambda: Called(
            lambda m, x: m.a(x) * torch.sigmoid(m.b(torch.ones(2, 4, dtype=x.dtype))),
            a=nn.Linear(4, 3), b=nn.Linear(4, 3),
        ),
        reals(2, 4),
    ),
    "one of two by position": (
        lambda: Called(
            lambda m, x: torch.where(torch.tensor([True, False, True]), m.a(x), m.b(x)),
            a=nn.Linear(4, 3), b=nn.Linear(4, 3),
        ),
        reals(2, 4),
    ),
}  # fmt: skip
