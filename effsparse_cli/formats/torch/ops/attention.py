"""Scaled dot-product attention in the forms that torch calls it by. Known masks block exactly; scores that
depend on the input are added."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered, Value, nonzero, very_negative
from effsparse_cli.graph import layers
from effsparse_cli.graph.primitives import Bools

operator = family("attention", steps=costs.longest_axis)


@operator("scaled_dot_product_attention")
def attention(
    low: Lowering, q: Arg, k: Arg, v: Arg, mask: Arg, dropout: float, causal: bool, scale: Arg, gqa: bool
) -> int:
    query, key, value = (low.node(x) for x in (q, k, v))
    heads = low.b.shape(query)[-3] if len(low.b.shape(query)) > 2 else 1
    if gqa:
        key, value = (layers.repeat_heads(low.b, x, heads) for x in (key, value))
    length, others = low.b.shape(query)[-2], low.b.shape(key)[-2]
    allowed = np.tri(length, others, dtype=bool) if causal else None
    added = []
    if mask is not None:
        known = _allowed(mask)
        allowed = known if allowed is None else allowed if known is None else allowed & known
        if isinstance(mask, Live):
            added.append(low.node(mask))
    y = layers.attention(low.b, query, key, value, allowed, added)
    return low.b.expand(y, low.call.shape)


def _allowed(mask: Value) -> Bools | None:
    if isinstance(mask, Const) and mask.tensor.dtype == torch.bool:
        return nonzero(mask.tensor)
    blocked = mask.blocked if isinstance(mask, Live) else very_negative(mask.tensor)
    return None if blocked is None else ~blocked.numpy()


@operator("_scaled_dot_product_flash_attention_for_cpu")
def flash_on_cpu(low: Lowering, q: Arg, k: Arg, v: Arg, dropout: float, causal: bool, mask: Arg, scale: Arg) -> Lowered:
    return _with_sums(low, attention(low, q, k, v, mask, dropout, causal, scale, False), q)


@operator("_scaled_dot_product_attention_math")
def math(
    low: Lowering, q: Arg, k: Arg, v: Arg, mask: Arg, dropout: float, causal: bool, drop: Arg, scale: Arg, gqa: bool
) -> Lowered:
    return _with_sums(low, attention(low, q, k, v, mask, dropout, causal, scale, gqa), q)


@operator("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
def efficient(
    low: Lowering, q: Arg, k: Arg, v: Arg, mask: Arg, sums: bool, dropout: float, causal: bool, *_: Arg
) -> Lowered:
    return _with_sums(low, attention(low, q, k, v, mask, dropout, causal, None, False), q)


@operator("_scaled_dot_product_flash_attention")
def flash(low: Lowering, q: Arg, k: Arg, v: Arg, dropout: float, causal: bool, *_: Arg) -> Lowered:
    return _with_sums(low, attention(low, q, k, v, None, dropout, causal, None, False), q)


def _with_sums(low: Lowering, y: int, q: Arg) -> list[Any]:
    """The further results only serve training; nothing in an evaluated model reads them."""
    others = low.call.results[1:]
    return [y, *(low.b.constant(True, r.shape) if isinstance(r, torch.Tensor) else None for r in others)]
