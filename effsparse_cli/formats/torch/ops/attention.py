"""Scaled dot-product attention. Constant masks block exactly; masks that depend on the input add to the scores."""

from __future__ import annotations

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


@operator(
    "scaled_dot_product_attention", "_scaled_dot_product_attention_math", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_cudnn_attention",
)  # fmt: skip
def attention(call: OpCall, q: Arg, k: Arg, v: Arg, *_: Arg) -> Result:
    query, key, value = (call.node(x) for x in (q, k, v))
    heads = call.b.shape(query)[-3] if len(call.b.shape(query)) > 2 else 1
    if call.argument("enable_gqa"):
        key, value = (layers.repeat_heads(call.b, x, heads) for x in (key, value))
    length, others = call.b.shape(query)[-2], call.b.shape(key)[-2]
    allowed = np.tri(length, others, dtype=bool) if call.argument("is_causal") else None
    added = []
    mask = call.argument("attn_mask") or call.argument("attn_bias")
    if mask is not None:
        known = _allowed(mask)
        allowed = known if allowed is None else allowed if known is None else allowed & known
        if isinstance(mask, LiveValue):
            added.append(call.node(mask))
    y = layers.attention(call.b, query, key, value, allowed, added)
    return call.with_unused(call.b.expand(y, call.shape))


def _allowed(mask: Value) -> Bools | None:
    if isinstance(mask, ConstantValue) and mask.tensor.dtype == torch.bool:
        return nonzero(mask.tensor)
    blocked = mask.blocked if isinstance(mask, LiveValue) else very_negative(mask.tensor)
    return None if blocked is None else ~blocked.numpy()
