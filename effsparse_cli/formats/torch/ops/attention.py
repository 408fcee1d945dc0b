"""Scaled dot-product attention in all forms that torch calls. Constant masks block exactly; masks that depend on the
input are added to the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.tensors import nonzero, very_negative
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result, Value
from effsparse_cli.graph import layers
from effsparse_cli.graph.primitives import Bools

operator = family("attention", steps=costs.longest_axis)


@operator("scaled_dot_product_attention")
def attention(
    call: OpCall, q: Arg, k: Arg, v: Arg, mask: Arg, dropout: float, causal: bool, scale: Arg, gqa: bool
) -> int:
    query, key, value = (call.node(x) for x in (q, k, v))
    heads = call.b.shape(query)[-3] if len(call.b.shape(query)) > 2 else 1
    if gqa:
        key, value = (layers.repeat_heads(call.b, x, heads) for x in (key, value))
    length, others = call.b.shape(query)[-2], call.b.shape(key)[-2]
    allowed = np.tri(length, others, dtype=bool) if causal else None
    added = []
    if mask is not None:
        known = _allowed(mask)
        allowed = known if allowed is None else allowed if known is None else allowed & known
        if isinstance(mask, LiveValue):
            added.append(call.node(mask))
    y = layers.attention(call.b, query, key, value, allowed, added)
    return call.b.expand(y, call.shape)


def _allowed(mask: Value) -> Bools | None:
    if isinstance(mask, ConstantValue) and mask.tensor.dtype == torch.bool:
        return nonzero(mask.tensor)
    blocked = mask.blocked if isinstance(mask, LiveValue) else very_negative(mask.tensor)
    return None if blocked is None else ~blocked.numpy()


@operator("_scaled_dot_product_flash_attention_for_cpu")
def flash_on_cpu(call: OpCall, q: Arg, k: Arg, v: Arg, dropout: float, causal: bool, mask: Arg, scale: Arg) -> Result:
    return _with_other_results(call, attention(call, q, k, v, mask, dropout, causal, scale, False))


@operator("_scaled_dot_product_attention_math")
def by_math(
    call: OpCall, q: Arg, k: Arg, v: Arg, mask: Arg, dropout: float, causal: bool, drop: Arg, scale: Arg, gqa: bool
) -> Result:
    return _with_other_results(call, attention(call, q, k, v, mask, dropout, causal, scale, gqa))


@operator("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
def efficient(
    call: OpCall, q: Arg, k: Arg, v: Arg, mask: Arg, sums: bool, dropout: float, causal: bool, *_: Arg
) -> Result:
    return _with_other_results(call, attention(call, q, k, v, mask, dropout, causal, None, False))


@operator("_scaled_dot_product_flash_attention")
def flash(call: OpCall, q: Arg, k: Arg, v: Arg, dropout: float, causal: bool, *_: Arg) -> Result:
    return _with_other_results(call, attention(call, q, k, v, None, dropout, causal, None, False))


def _with_other_results(call: OpCall, y: int) -> list[Any]:
    """The other results are only for training."""
    others = call.results[1:]
    return [y, *(call.b.constant(True, r.shape) if isinstance(r, torch.Tensor) else None for r in others)]
