"""Every form of attention in torch.nn, compared with the real module."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from effsparse_cli.paths import find_paths
from tests.formats.torch.cases import Case, L, r
from tests.formats.torch.functional import Functional
from tests.formats.torch.perturbed import idle_weights_do_nothing, lowered, thin


def attention(batch_first: bool = True, need_weights: bool = True) -> nn.Module:
    return Functional(
        lambda m, x: m.a(x, x, x, need_weights=need_weights)[0], a=nn.MultiheadAttention(8, 2, batch_first=batch_first)
    )


def masked(mask: torch.Tensor) -> nn.Module:
    return Functional(lambda m, x: m.a(x, x, x, attn_mask=mask)[0], a=nn.MultiheadAttention(8, 2, batch_first=True))


FORMS: dict[str, Callable[[], Case]] = {
    "batch first": lambda: (attention(), (r(2, 3, 8),)),
    "batch second": lambda: (attention(batch_first=False), (r(3, 2, 8),)),
    "without weights": lambda: (attention(need_weights=False), (r(2, 3, 8),)),
    "other keys and values": lambda: (
        Functional(
            lambda m, x, y, z: m.a(x, y, z)[0],
            a=nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True, add_bias_kv=True, add_zero_attn=True),
        ),
        (r(2, 3, 8), r(2, 4, 5), r(2, 4, 6)),
    ),
    "mask of minus infinity": lambda: (masked(torch.full((3, 3), float("-inf")).triu(1)), (r(2, 3, 8),)),
    "boolean mask": lambda: (masked(torch.ones(3, 3, dtype=torch.bool).triu(1)), (r(2, 3, 8),)),
    "encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        (r(1, 3, 8),),
    ),
    "encoder, norm first": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, activation="gelu"),
        (r(3, 1, 8),),
    ),
    "decoder": lambda: (nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), (r(1, 3, 8), r(1, 4, 8))),
    "transformer": lambda: (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (r(1, 3, 8), r(1, 4, 8))),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", FORMS)
def test_inactive_weights_change_nothing(name: str) -> None:
    model, inputs = FORMS[name]()
    for seed, density in enumerate((0.3, 0.5)):
        thin(model, density, seed)
        idle_weights_do_nothing(model, inputs)


@pytest.mark.parametrize("form", ["is_causal", "boolean", "added", "filled"])
def test_masked_positions_pass_nothing(form: str) -> None:
    """Each token has its own layer, so the active layers are those that the first output depends on."""

    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        causal = torch.ones(3, 3, dtype=torch.bool).tril()
        if form == "is_causal":
            return F.scaled_dot_product_attention(x, x, x, is_causal=True)[:, :1]
        if form == "boolean":
            return F.scaled_dot_product_attention(x, x, x, attn_mask=causal)[:, :1]
        scores = x @ x.transpose(1, 2)
        if form == "added":
            scores = scores + torch.zeros(3, 3).masked_fill(~causal, torch.finfo(torch.float32).min)
        else:
            scores = scores.masked_fill(~causal, float("-inf"))
        return (scores.softmax(-1) @ x)[:, :1]

    model = Functional(
        lambda m, x, y, z: forward(m, torch.stack([m.a(x), m.b(y), m.c(z)], 1)), a=L(4, 4), b=L(4, 4), c=L(4, 4)
    )
    found = find_paths(lowered(model, (r(1, 4), r(1, 4), r(1, 4))))
    assert [found[name].count("active") for name in "abc"] == [16, 0, 0]


def test_grouped_heads_are_repeated() -> None:
    """Heads 0 and 1 of the query read head 0 of keys and values."""
    model = Functional(
        lambda m, q, k: F.scaled_dot_product_attention(
            q.view(1, 3, 4, 2).transpose(1, 2), *(m.a(k).view(1, 3, 2, 2).transpose(1, 2),) * 2, enable_gqa=True
        )[:, :2],
        a=L(4, 4),
    )
    active = find_paths(lowered(model, (r(1, 3, 8), r(1, 3, 4))))["a"].mask("active")
    assert active[:2].all()
    assert not active[2:].any()
