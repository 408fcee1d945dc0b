"""Torch operators that networks call between their layers, as functions of one tensor of at least three axes. Unusual
ones are included, because their lowerings are the most likely to be wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "roll": lambda x: torch.roll(x, (1, -1), (1, -1)),
    "flip": lambda x: x.flip(-1),
    "slice": lambda x: x[..., ::2],
    "cut first": lambda x: x[:, 1:] if x.shape[1] > 1 else x,
    "negative pad": lambda x: F.pad(x, (-1, 2)),
    "reflect": lambda x: F.pad(x, (1, 0), mode="reflect") if x.dim() == 3 and x.shape[-1] > 1 else x,
    "replicate": lambda x: F.pad(x, (1, 1), mode="replicate") if x.dim() == 3 else x,
    "swap": lambda x: x.transpose(1, -1),
    "split and join": lambda x: torch.cat(torch.split(x, 1, dim=-1)[::-1], dim=1),
    "repeat": lambda x: x.repeat_interleave(2, dim=-1),
    "select": lambda x: x.index_select(-1, torch.tensor([0, 0, -1 % x.shape[-1]])),
    "stack": lambda x: torch.stack([x, 2 * x], dim=2).flatten(1, 2),
    "triangle": lambda x: x.tril(),
    "write": lambda x: _written(x),
    "unfold": lambda x: x.unfold(-1, min(2, x.shape[-1]), 1).flatten(-2),
    "shift and add": lambda x: x + F.pad(x, (1, -1)),
    "constant where": lambda x: torch.where(torch.arange(x.shape[-1]) % 2 == 0, x, x.roll(1, -1) * 0.5),
    "spread": lambda x: x[..., :1].expand_as(x) + x,
}
"""Linear without negative factors or constants: the path norm is exact for these."""

MIXES: dict[str, Callable[[Tensor], Tensor]] = {
    "difference": lambda x: x[..., 1:] - x[..., :-1] if x.shape[-1] > 1 else x,
    "softmax": lambda x: x.softmax(-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cumsum": lambda x: x.cumsum(-1),
    "sum of others": lambda x: x.sum(-1, keepdim=True) - x,
    "square": lambda x: x * x,
    "glu": lambda x: F.glu(torch.cat([x, x.flip(1)], 1), 1),
    "self product": lambda x: x.flatten(2) @ x.flatten(2).flip(-1).transpose(1, 2),
    "einsum": lambda x: torch.einsum("bci,bdi->bcd", x.flatten(2), x.flatten(2).flip(-1).tanh()),
    "divide": lambda x: x / (1 + x.abs().mean(1, keepdim=True)),
    "swish by hand": lambda x: x * torch.sigmoid(x),
    "gate by one channel": lambda x: x * x[:, :1],
    "centre": lambda x: x - x.mean(dim=(1, 2), keepdim=True),
    "log sum": lambda x: x.logsumexp(1, keepdim=True).expand_as(x),
    "power": lambda x: x.pow(3) + 0.1,
    "sigmoid of zero": lambda x: torch.sigmoid(x * 0.0) * x,
    "exponential": lambda x: torch.exp(-x.abs() - 0.5) * x.flip(-1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x.flip(-1), x.flip(1), is_causal=x.dim() == 3),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(-1), dim=-1).unsqueeze(-1).expand_as(x),
    "length": lambda x: x.norm(dim=-1, keepdim=True) * x.flip(-1),
    "product of all": lambda x: x.prod(-1, keepdim=True).expand_as(x),
    "running product": lambda x: x.cumprod(-1),
    "lerp": lambda x: torch.lerp(x, x.flip(1), torch.sigmoid(x.flip(-1))),
    "cosine of it": lambda x: torch.cos(x) * x.flip(-1),
    "reciprocal": lambda x: x.flip(-1) / (3 + x.tanh()),
    "log softmax": lambda x: F.log_softmax(x, 1) * x.flip(-1),
    "distances": lambda x: torch.cdist(x.flatten(2), x.flatten(2).flip(-1) + 0.3),
    "spectrum": lambda x: torch.fft.rfft(x).abs() * 0.3,
    "diagonal": lambda x: torch.diagonal(x.flatten(2), dim1=1, dim2=2).unsqueeze(1).expand(-1, 2, -1),
    "added product": lambda x: torch.addcmul(x, x.flip(1), x.flip(-1), value=0.5),
    "zero added product": lambda x: torch.addcmul(x, x.flip(1), x.flip(1), value=0.0),
    "weighted where": lambda x: x * torch.where(torch.arange(x.shape[-1]) > 0, 1.0, 0.0).to(x.dtype) + x.flip(1) * 0.0,
    "constant written": lambda x: _with_one(x),
    "variance": lambda x: x.var(dim=-1, keepdim=True, correction=0).expand_as(x),
}

FLAT: dict[str, Callable[[Tensor], Tensor]] = {
    "sort": lambda x: x.sort(-1)[0],
    "top": lambda x: x.topk(min(2, x.shape[-1]), -1)[0],
    "where live": lambda x: torch.where(x > 0.2, x, x.flip(-1)),
    "where live, constants": lambda x: torch.where(x > 0, 1.0, 0.5) * x.flip(-1),
    "masked by itself": lambda x: x.masked_fill(x.flip(-1) > 0, 0.0),
    "written where live": lambda x: _where_live(x),
    "gather": lambda x: torch.gather(x, -1, (x.flip(-1).abs() * 7).long() % x.shape[-1]),
    "scatter": lambda x: torch.zeros_like(x).scatter_add(-1, (x.flip(-1).abs() * 7).long() % x.shape[-1], x),
    "one hot": lambda x: F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype) * x.flip(1),
    "floor": lambda x: torch.floor(3 * x) + torch.round(x.flip(-1)),
    "maximum": lambda x: torch.maximum(x, x.flip(-1)) - x.amin(-1, keepdim=True),
    "median": lambda x: x.median(-1, keepdim=True)[0] * x,
    "any": lambda x: (x > 0).any(-1, keepdim=True).to(x.dtype) * x.flip(1),
    "prelu": lambda x: F.prelu(x, torch.linspace(-0.3, 0.3, x.shape[1], dtype=x.dtype)),
    "bucket": lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.1, 0.5], dtype=x.dtype)).to(x.dtype),
    "threshold": lambda x: F.threshold(x, 0.1, 2.0) * x.flip(-1),
}
"""With flat parts: a weight before them may be active without changing the output."""


def _where_live(x: Tensor) -> Tensor:
    y = x.clone()
    y[x.flip(-1) > 0] = 0.25
    return y


def _written(x: Tensor) -> Tensor:
    """In-place changes of a copy: one slice overwritten, one added to."""
    y = x.clone()
    y[..., 0] = x[..., -1] * 0.5
    y[..., -1] += x[..., 0]
    return y


def _with_one(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 0] = 1.0
    return y


FUNCTIONS = {**MOVES, **MIXES, **FLAT}


class Apply(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        return FUNCTIONS[self.name](x)

    def extra_repr(self) -> str:
        return self.name
