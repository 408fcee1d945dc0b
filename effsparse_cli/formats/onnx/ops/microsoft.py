"""Fused operators of onnxruntime (com.microsoft): projections, attention and embeddings in one node, written out."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import LiveValue
from effsparse_cli.formats.onnx.lowering.weights import known_weight
from effsparse_cli.formats.onnx.operators import MICROSOFT, Result, operator
from effsparse_cli.formats.onnx.ops.attention import Masks, add_mask, attend, causal, rotary_cache, rotary_of, rotate
from effsparse_cli.formats.onnx.ops.contraction import add_bias, heads, matmul_values, merge_heads, split_last
from effsparse_cli.formats.onnx.ops.indexing import lookup
from effsparse_cli.formats.onnx.ops.norm import affine
from effsparse_cli.formats.onnx.ops.quantized.linear import centered, dequantize, quantize

operator("QuantizeLinear", domain=MICROSOFT, primitives="Join")(quantize)
operator("DequantizeLinear", domain=MICROSOFT, primitives="Join")(dequantize)


@operator("Attention", "QAttention", domain=MICROSOFT, primitives="Contract, Product, Mix, Product")
def attention(c: OpCall) -> Result:
    """One projection for queries, keys and values, then attention over past and present."""
    quantized = c.node.op_type == "QAttention"
    x = c.node_of(centered(c, 0, 6)) if quantized else c.x()
    weight = known_weight(centered(c, 1, 7) if quantized else c.value(1))
    mask, past, extra = (5, 8, None) if quantized else (3, 4, 5)
    count = c.attr("num_heads")
    total = weight.shape[1]
    sizes = c.attr("qkv_hidden_sizes") or [total // 3] * 3
    projected = add_bias(c, matmul_values(c, LiveValue(x), weight), c.get(2))
    q, k, v = (heads(c, part, count) for part in split_last(c, projected, sizes))
    if c.has(past):
        k, v = (c.b.concat([c.b.take_one(c.x(past), 0, i), x], 2) for i, x in enumerate((k, v)))
    masks = _masks(c, q, k, c.shape(past)[3] if c.has(past) else 0, mask, extra)
    y = merge_heads(c, attend(c.b, q, k, v, masks).output)
    return [y, c.b.stack([k, v], 0)][: len(c.node.output)]


def _masks(c: OpCall, q: int, k: int, past: int, padding: int, added: int | None) -> Masks:
    """Combine the masks of an attention: causal after `past` keys, of padding, and of numbers that are added."""
    masks, queries, keys = Masks(), c.b.shape(q)[2], c.b.shape(k)[2]
    if c.attr("unidirectional", 0):
        masks.allow(causal(queries, keys, past))
    _key_mask(c, masks, padding, keys)
    if added is not None:
        add_mask(c, masks, c.get(added), keys)
    return masks


def _key_mask(c: OpCall, masks: Masks, i: int, keys: int) -> None:
    """Add a padding mask of any form. A constant mask of zeros and ones is exact, a live one is an input."""
    if not c.has(i):
        return
    shape = c.shape(i)
    if c.is_live(i):
        per_key = len(shape) > 1
        grown = (shape[0], *(1,) * (4 - len(shape)), *shape[1:]) if per_key else (1, 1, 1, 1)
        node = c.x(i) if per_key else c.b.reduce(c.x(i), None, keepdim=False)
        node = c.b.reshape(node, grown)
        fits = c.b.shape(node)[-1] in (1, keys)
        masks.add(node if fits else c.b.reduce(node, (3,), keepdim=True))
    elif len(shape) > 1 and shape[-1] == keys:
        masks.allow(c.array(i).astype(bool).reshape(shape[0], *(1,) * (4 - len(shape)), *shape[1:]))


@operator("MultiHeadAttention", domain=MICROSOFT, primitives="Product, Mix, Product")
def multi_head_attention(c: OpCall) -> Result:
    count = c.attr("num_heads")
    q, k, v = _projected(c, count)
    past = 0
    if c.has(6) and c.has(7):
        past, k, v = c.shape(6)[2], c.b.concat([c.x(6), k], 2), c.b.concat([c.x(7), v], 2)
    done = attend(c.b, q, k, v, _masks(c, q, k, past, 4, 5))
    return [merge_heads(c, done.output), k, v, done.scores][: len(c.node.output)]


def _projected(c: OpCall, count: int) -> list[int]:
    """Return queries, keys and values by head. They are separate, or packed in pairs or all three."""
    b, query = c.b, c.x()
    packed = query if len(b.shape(query)) == 5 else c.x(1) if c.has(1) and len(c.shape(1)) == 5 else None
    if packed is not None:
        parts = [b.permute(b.take_one(packed, 3, i), (0, 2, 1, 3)) for i in range(b.shape(packed)[3])]
        return parts if len(parts) == 3 else [heads(c, query, count), *parts]
    projected = []
    for i in range(3):
        x, start = c.x(i), i * b.shape(query)[2]
        if i and len(b.shape(x)) == 4:
            projected.append(x)
            continue
        x = b.join(x, b.slice(c.x(3), 0, start, start + b.shape(x)[2])) if c.has(3) else x
        projected.append(heads(c, x, count))
    return projected


@operator("GroupQueryAttention", domain=MICROSOFT, primitives="Product, Mix, Product")
def group_query_attention(c: OpCall) -> Result:
    b = c.b
    n_q, n_kv = c.attr("num_heads"), c.attr("kv_num_heads")
    if c.has(1):
        parts = [c.x(i) for i in range(3)]
    else:
        width = c.shape()[2] // (n_q + 2 * n_kv)
        parts = split_last(c, c.x(), [n_q * width, n_kv * width, n_kv * width])
    q, k, v = (heads(c, part, n) for part, n in zip(parts, (n_q, n_kv, n_kv), strict=True))
    lengths = c.b.reduce(c.x(5), None, keepdim=False) if c.is_live(5) else None
    if c.attr("do_rotary", 0):
        q, k = _rotated(c, q, lengths), _rotated(c, k, lengths)
    past = 0
    if c.has(3):
        past, k, v = c.shape(3)[2], b.concat([c.x(3), k], 2), b.concat([c.x(4), v], 2)
    queries, keys = b.shape(q)[2], b.shape(k)[2]
    masks = Masks()
    # The start of the window depends on the lengths. If these are live, only the order is certain.
    masks.allow(causal(queries, keys, past, c.attr("local_window_size", -1) if lengths is None else -1))
    if lengths is not None:
        masks.add(b.reshape(lengths, (1, 1, 1, 1)))
    add_mask(c, masks, c.get(10), keys)
    return [merge_heads(c, attend(b, q, k, v, masks).output), k, v][: len(c.node.output)]


def _rotated(c: OpCall, x: int, lengths: int | None) -> int:
    """Rotate by position. Positions that depend on live lengths may be any."""
    b = c.b
    length, features = b.shape(x)[2], b.shape(x)[3]
    turned = b.permute(x, (0, 2, 1, 3))
    caches = []
    for i in (7, 8):
        if c.has(9):
            caches.append(rotary_cache(c, i, 9, length))
        else:
            rows = b.reduce(c.x(i), (0,), keepdim=True)
            rows = b.times(rows, b.join(lengths, keeps_zero=False)) if lengths is not None else rows
            caches.append(b.reshape(rows, (1, 1, 1, -1)))
    width = 2 * b.shape(caches[0])[3]
    y = rotate(c, turned, caches[0], caches[1], min(width, features), bool(c.attr("rotary_interleaved", 0)))
    return b.permute(y, (0, 2, 1, 3))


@operator("RotaryEmbedding", domain=MICROSOFT, primitives="Product, Join, Take")
def rotary(c: OpCall) -> Result:
    return rotary_of(c, (2, 3), 1)


@operator("EmbedLayerNormalization", domain=MICROSOFT, primitives="Contract, Join, Mix")
def embed_layer_norm(c: OpCall) -> Result:
    """Look up words, positions and segments, add them and normalize the sum."""
    b, (batch, length) = c.b, c.shape()
    segments = c.constant(4)
    parts = [lookup(c, known_weight(c.value(2)), 0, c.x())]
    if c.is_live(8):
        parts.append(lookup(c, known_weight(c.value(3)), 0, c.x(8)))
    else:
        ids = c.array(8).reshape(-1, length)[:1] if c.has(8) else np.arange(length)[None, :]
        parts.append(b.reshape(b.take(c.x(3), 0, ids.reshape(-1)), (1, length, -1)))
    if segments is not None and c.is_live(1):
        parts.append(lookup(c, segments, 0, c.x(1)))
    elif segments is not None:
        parts.append(b.reshape(b.take(c.x(4), 0, np.zeros(length, np.int64)), (1, length, -1)))
    total = b.join(*parts)
    y = affine(c, b.mix(total, (2,)), 5, 6, 2)
    counts = b.reduce(c.x(7), (1,), keepdim=False) if c.is_live(7) else b.constant(True, (batch,))
    return [y, counts, total][: len(c.node.output)]


@operator("BiasSplitGelu", domain=MICROSOFT, primitives="Join, Product")
def bias_split_gelu(c: OpCall) -> Result:
    x = c.b.join(c.x(), c.x(1))
    half = c.b.shape(x)[-1] // 2
    value, gate = split_last(c, x, [half, half])
    return c.b.times(value, gate)


@operator("BiasAdd", domain=MICROSOFT, primitives="Join")
def bias_add(c: OpCall) -> Result:
    return c.b.join(*c.xs())
