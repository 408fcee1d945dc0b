"""Small networks with inputs, one or two per operator family, which the front end must lower exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.formats.torch.functional import Functional
from tests.formats.torch.perturbed import Inputs

Case = tuple[nn.Module, Inputs]
L = nn.Linear


def r(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


def _in_place(m: Any, x: Tensor) -> Tensor:
    y = m.a(x)
    z = y.view(2, 2, 3)
    z[:, 0] *= 2
    y[:, ::2] = 0
    y.tanh_()
    y += 0.1
    return m.b(y)  # type: ignore[no-any-return]


def _scattered(m: Any, x: Tensor) -> Tensor:
    y = m.a(x).index_copy(1, torch.tensor([0, 5]), x[:, :2])
    y = torch.scatter(y, 1, torch.tensor([[1, 2], [3, 4]]), x[:, 2:])
    y = y.index_add(1, torch.tensor([0, 0]), x[:, :2]).scatter(1, torch.tensor([[3], [2]]), 1.5)
    return m.b(y)  # type: ignore[no-any-return]


def _warped(m: Any, x: Tensor) -> Tensor:
    grid = F.affine_grid(m.t(x.mean((2, 3))).view(1, 2, 3), [1, 3, 4, 4], align_corners=False)
    return m.b(F.grid_sample(m.a(x), grid, align_corners=False))  # type: ignore[no-any-return]


def _standardised(m: Any, x: Tensor) -> Tensor:
    y = m.a(x)
    return m.b((y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True))  # type: ignore[no-any-return]


def _resized(**how: Any) -> nn.Module:
    return Functional(
        lambda m, x: m.b(F.interpolate(m.a(x), **how)), a=nn.Conv2d(2, 3, 3), b=nn.Conv2d(3, 2, 2, stride=3)
    )


CASES: dict[str, Callable[[], Case]] = {
    "conv1d": lambda: (nn.Conv1d(3, 6, 3, padding=2, stride=2), (r(1, 3, 7),)),
    "conv2d same, circular, reflect": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 6, 3, padding="same", dilation=2),
            nn.Conv2d(6, 4, 3, padding=1, padding_mode="circular"),
            nn.Conv2d(4, 4, 2, padding=1, padding_mode="reflect", groups=2),
            nn.Conv2d(4, 2, 1, stride=2),
        ),
        (r(1, 3, 6, 6),),
    ),
    "padding around one position": lambda: (  # each kernel has one tap on it, which depends on where padding starts
        nn.Sequential(
            nn.Conv1d(2, 4, 3, padding=1), nn.Conv1d(4, 4, 2, padding="same"), nn.ConvTranspose1d(4, 3, 3, padding=1)
        ),
        (r(1, 2, 1),),
    ),
    "conv2d unbatched": lambda: (nn.Conv2d(3, 6, 3), (r(3, 6, 6),)),
    "conv3d": lambda: (nn.Conv3d(2, 3, 2, padding=(1, 0, 1)), (r(1, 2, 3, 3, 3),)),
    "transposed conv1d": lambda: (nn.ConvTranspose1d(4, 6, 3, stride=2), (r(1, 4, 5),)),
    "transposed conv2d in groups": lambda: (
        nn.Sequential(
            nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
            nn.SiLU(),
            nn.Conv2d(6, 2, 3, padding=1),
        ),
        (r(1, 4, 3, 3),),
    ),
    "transposed conv3d": lambda: (nn.ConvTranspose3d(2, 3, 2), (r(1, 2, 2, 3, 2),)),
    "kernel from the input": lambda: (
        Functional(lambda m, x: F.conv2d(x, m.k(x.mean((2, 3))).view(2, 3, 2, 2)), k=L(3, 24)),
        (r(1, 3, 4, 4),),
    ),
    "norms over channels": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 6, 1), nn.GroupNorm(3, 6), nn.BatchNorm2d(6), nn.Conv2d(6, 2, 1), nn.LayerNorm([2, 4, 4])
        ),
        (r(1, 3, 4, 4),),
    ),
    "instance norm": lambda: (nn.Sequential(nn.Conv2d(3, 4, 1), nn.InstanceNorm2d(4, affine=True)), (r(1, 3, 4, 4),)),
    "rms norm": lambda: (nn.Sequential(L(4, 6), nn.RMSNorm(6), L(6, 3)), (r(2, 4),)),
    "batch statistics": lambda: (
        nn.Sequential(L(4, 6), nn.BatchNorm1d(6, track_running_stats=False), L(6, 3)),
        (r(3, 4),),
    ),
    "pooling": lambda: (
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.AvgPool2d(3, 2, 1, ceil_mode=True),
            nn.AvgPool2d(2, 1),
            nn.AdaptiveAvgPool2d((2, 3)),
            nn.LPPool2d(2, 2, 1),
            nn.Flatten(),
            L(8, 3),
        ),
        (r(1, 2, 9, 9),),
    ),
    "max pooling": lambda: (
        nn.Sequential(nn.Conv2d(2, 3, 1), nn.MaxPool2d(3, 2, 1, dilation=1, ceil_mode=True), nn.AdaptiveMaxPool2d(2)),
        (r(1, 2, 8, 8),),
    ),
    "resize nearest": lambda: (_resized(scale_factor=1.7, mode="nearest"), (r(1, 2, 6, 6),)),
    "resize bilinear": lambda: (_resized(scale_factor=1.7, mode="bilinear"), (r(1, 2, 6, 6),)),
    "resize bicubic": lambda: (_resized(size=(7, 5), mode="bicubic", align_corners=True), (r(1, 2, 6, 6),)),
    "resize antialiased": lambda: (_resized(size=(2, 5), mode="bilinear", antialias=True), (r(1, 2, 9, 9),)),
    "sampling by a grid": lambda: (
        Functional(_warped, a=nn.Conv2d(2, 3, 1), b=nn.Conv2d(3, 2, 1), t=L(2, 6)),
        (r(1, 2, 4, 4),),
    ),
    "einsum by a weight": lambda: (
        Functional(lambda m, x: torch.einsum("bid,hde->bhie", x, m.w), w=weight(2, 4, 3)),
        (r(2, 5, 4),),
    ),
    "einsum of three": lambda: (
        Functional(lambda m, x: torch.einsum("...d,de,ef->...f", x, m.w, m.v), w=weight(4, 3), v=weight(3, 2)),
        (r(2, 5, 4),),
    ),
    "einsum of activations": lambda: (
        Functional(lambda m, x: torch.einsum("bid,bjd->bij", m.a(x), m.b(x)).softmax(-1) @ x, a=L(4, 4), b=L(4, 4)),
        (r(2, 5, 4),),
    ),
    "bmm by a weight": lambda: (Functional(lambda m, x: torch.bmm(x, m.w), w=weight(2, 4, 3)), (r(2, 5, 4),)),
    "weight on the left": lambda: (Functional(lambda m, x: m.w @ x, w=weight(3, 5)), (r(2, 5, 4),)),
    "weight that broadcasts": lambda: (Functional(lambda m, x: x @ m.w, w=weight(2, 1, 4, 3)), (r(3, 5, 4),)),
    "bilinear": lambda: (nn.Bilinear(4, 5, 3), (r(2, 4), r(2, 5))),
    "weights in one": lambda: (
        Functional(lambda m, x: m.o(F.linear(x, torch.cat([m.a.weight, m.b.weight]))), a=L(4, 2), b=L(4, 3), o=L(5, 2)),
        (r(2, 4),),
    ),
    "padded weight": lambda: (Functional(lambda m, x: F.linear(x, F.pad(m.a.weight, (1, 1))), a=L(4, 2)), (r(2, 6),)),
    "weight filled up": lambda: (
        Functional(lambda m, x: F.linear(x, F.pad(m.a.weight, (1, 1), value=2.0)) * m.b(x), a=L(4, 2), b=L(6, 2)),
        (r(2, 6),),
    ),
    "permuted weight": lambda: (
        Functional(lambda m, x: F.linear(x, m.a.weight.flip(0)[:, [2, 0, 1]]), a=L(3, 2)),
        (r(2, 3),),
    ),
    "weight in chunks": lambda: (
        Functional(lambda m, x: sum(F.linear(x, w) for w in m.a.weight.chunk(2)), a=L(3, 4)),
        (r(2, 3),),
    ),
    "gates": lambda: (
        Functional(
            lambda m, x: F.glu(m.a(x)) * torch.sigmoid(m.b(x)) + F.softplus(m.c(x)), a=L(4, 6), b=L(4, 3), c=L(4, 3)
        ),
        (r(2, 4),),
    ),
    "activations": lambda: (
        nn.Sequential(
            L(4, 6), nn.Tanh(), L(6, 6), nn.Mish(), L(6, 6), nn.Softmax(-1), L(6, 6), nn.LogSoftmax(-1), L(6, 6),
            nn.ELU(), nn.Dropout(), L(6, 3), nn.Softmin(-1),
        ),
        (r(2, 4),),
    ),
    "in place through views": lambda: (Functional(_in_place, a=L(4, 6), b=L(6, 3)), (r(2, 4),)),
    "writing by index": lambda: (Functional(_scattered, a=L(4, 6), b=L(6, 3)), (r(2, 4),)),
    "reading by a live index": lambda: (
        Functional(lambda m, x, i: m.b(m.a(x)[i].gather(1, i[:, None].expand(-1, 2)).tile(3)), a=L(4, 6), b=L(6, 3)),
        (r(2, 4), torch.tensor([0, 1, 1])),
    ),
    "sorting": lambda: (
        Functional(lambda m, x: m.b(m.a(x).topk(3, -1)[0].sort(-1)[0].cumsum(-1)), a=L(4, 6), b=L(3, 3)),
        (r(2, 4),),
    ),
    "shuffles": lambda: (
        nn.Sequential(
            nn.Conv2d(2, 8, 1), nn.PixelShuffle(2), nn.Conv2d(2, 4, 2, stride=2), nn.PixelUnshuffle(2),
            nn.ChannelShuffle(4), nn.Conv2d(16, 2, 1),
        ),
        (r(1, 2, 4, 4),),
    ),
    "unfolding": lambda: (
        Functional(lambda m, x: m.b(F.unfold(m.a(x), 2).transpose(1, 2)), a=nn.Conv2d(2, 3, 1), b=L(12, 2)),
        (r(1, 2, 4, 4),),
    ),
    "fourier": lambda: (
        Functional(lambda m, x: m.b(torch.fft.fft(m.a(x), dim=-1).real), a=L(4, 6), b=L(6, 2)),
        (r(2, 4),),
    ),
    "norm written out": lambda: (Functional(_standardised, a=L(4, 6), b=L(6, 2)), (r(2, 4),)),
    "known condition": lambda: (
        Functional(lambda m, x: m.b(torch.where(torch.arange(6) < 3, m.a(x), x.sum())), a=L(4, 6), b=L(6, 2)),
        (r(2, 4),),
    ),
    "distances": lambda: (Functional(lambda m, x: torch.cdist(m.a(x), m.b(x)), a=L(4, 6), b=L(4, 6)), (r(2, 4),)),
    "embedding": lambda: (
        nn.Sequential(nn.Embedding(10, 4, padding_idx=0), L(4, 2)),
        (torch.tensor([[1, 0, 3], [9, 2, 2]]),),
    ),
    "embedding bag": lambda: (nn.EmbeddingBag(10, 4, mode="mean"), (torch.tensor([[1, 0, 3], [9, 2, 2]]),)),
    "layers on constants": lambda: (
        Functional(lambda m, x: m.b(torch.tanh(m.a(m.q))) + m.c(x), a=L(4, 6), b=L(6, 2), c=L(4, 2), q=weight(1, 4)),
        (r(2, 4),),
    ),
}  # fmt: skip
