"""Attention: scores, a softmax where masks allow, weighted values. Also rotary embeddings and linear attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value
from effsparse_cli.formats.onnx.operators import Result, operator
from effsparse_cli.formats.onnx.ops.contraction import heads, merge_heads
from effsparse_cli.formats.onnx.ops.elementwise import MINUS_INFINITY
from effsparse_cli.graph import layers
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Bools


def attend(b: Builder, q: int, k: int, v: int, masks: Masks) -> layers.Attended:
    """Attend over q, k and v, each [batch, heads, length, width]. Keys and values may have fewer heads."""
    k, v = (layers.repeat_heads(b, x, b.shape(q)[1]) for x in (k, v))
    return layers.attend(b, q, k, v, masks.allowed, masks.added)


def causal(queries: int, keys: int, offset: int, left: int = -1, right: int = -1, lower: bool = True) -> Bools:
    """Return which keys a query sees: those up to its own position (`lower`), within its window."""
    distance = np.arange(queries)[:, None] + offset - np.arange(keys)[None, :]
    allowed = distance >= 0 if lower else np.ones((queries, keys), bool)
    if left >= 0:
        allowed = allowed & (distance <= left)
    if right >= 0:
        allowed = allowed & (-distance <= right)
    return allowed


@dataclass
class Masks:
    """Masks of all kinds combined: where attention is allowed, and which live values are added."""

    allowed: Bools | None = None
    added: tuple[int, ...] = ()

    def allow(self, where: Bools) -> None:
        self.allowed = where if self.allowed is None else self.allowed & where

    def add(self, node: int) -> None:
        self.added = (*self.added, node)


def add_mask(c: OpCall, masks: Masks, mask: Value | None, keys: int) -> None:
    """Add a mask. A boolean mask allows, a float mask is added; keys beyond its length are not allowed."""
    if isinstance(mask, ConstantValue):
        array = mask.array
        where = array if array.dtype == bool else array.astype(np.float64) > MINUS_INFINITY
        missing = keys - where.shape[-1]
        masks.allow(np.pad(where, [(0, 0)] * (where.ndim - 1) + [(0, max(missing, 0))]))
    elif isinstance(mask, LiveValue):
        missing = keys - c.b.shape(mask.node)[-1]
        node = c.b.pad(mask.node, -1, 0, missing, nonzero=True) if missing > 0 else mask.node
        masks.add(node)


@operator("Attention", primitives="Product, Mix, Product")
def attention(c: OpCall) -> Result:
    b = c.b
    flat = len(c.shape()) == 3
    q, k, v = (c.x(i) for i in range(3))
    if flat:
        counts = c.attr("q_num_heads"), c.attr("kv_num_heads"), c.attr("kv_num_heads")
        q, k, v = (heads(c, x, n) for x, n in zip((q, k, v), counts, strict=True))
    if c.has(4):
        k, v = b.concat([c.x(4), k], 2), b.concat([c.x(5), v], 2)
    queries, keys = b.shape(q)[2], b.shape(k)[2]
    offset = c.shape(4)[2] if c.has(4) else 0
    masks = Masks()
    left, right, lower = c.attr("left_window_size", -1), c.attr("right_window_size", -1), bool(c.attr("is_causal", 0))
    if c.has(6):
        _valid_keys(c, masks, queries, keys, lower, left, right)
    elif lower or left >= 0 or right >= 0:
        masks.allow(causal(queries, keys, offset, left, right, lower))
    add_mask(c, masks, c.get(3), keys)
    done = attend(b, q, k, v, masks)
    y = merge_heads(c, done.output) if flat else done.output
    mode = c.attr("qk_matmul_output_mode", 0)
    exposed = done.scores
    if mode == 2:
        exposed = b.join(done.scores, *masks.added, keeps_zero=False)
    elif mode == 3:
        exposed = done.weights
    return [y, k, v, exposed][: len(c.node.output)]


def _valid_keys(c: OpCall, masks: Masks, queries: int, keys: int, lower: bool, left: int, right: int) -> None:
    """Add masks for the number of valid keys of each sample, the last of which belongs to its last query."""
    if c.is_live(6):
        masks.add(c.b.reshape(c.x(6), (-1, 1, 1, 1)))
        return
    per_sample = []
    for n in c.ints(6):
        where = np.broadcast_to(np.arange(keys)[None, :] < n, (queries, keys))
        if lower or left >= 0 or right >= 0:
            where = where & causal(queries, keys, n - queries, left, right, lower)
        per_sample.append(where)
    masks.allow(np.stack(per_sample)[:, None])


def rotate(c: OpCall, x: int, cos: int, sin: int, width: int, interleaved: bool) -> int:
    """Rotate pairs of the first `width` features of x [batch, length, heads, features]."""
    b = c.b
    features = b.shape(x)[3]
    index = np.arange(width)
    firsts, seconds = (index[0::2], index[1::2]) if interleaved else np.split(index, 2)
    a, z = b.take(x, 3, firsts), b.take(x, 3, seconds)
    real = b.join(b.times(cos, a), b.times(sin, z))
    imaginary = b.join(b.times(sin, a), b.times(cos, z))
    both = b.concat([real, imaginary], 3)
    if interleaved:
        both = b.take(both, 3, np.arange(width).reshape(2, -1).T.reshape(-1))
    return both if width == features else b.concat([both, b.slice(x, 3, width, features)], 3)


@operator("RotaryEmbedding", primitives="Product, Join, Take")
def rotary(c: OpCall) -> Result:
    return rotary_of(c, (1, 2), 3)


def rotary_of(c: OpCall, caches: tuple[int, int], positions: int) -> int:
    b, shape = c.b, c.shape()
    if len(shape) == 4:
        x = b.permute(c.x(), (0, 2, 1, 3))
    else:
        count = c.attr("num_heads", 0) or shape[2] // max(
            c.attr("rotary_embedding_dim", 0) or 2 * c.shape(caches[0])[-1], 1
        )
        x = b.reshape(c.x(), (*shape[:2], count, -1))
    width = c.attr("rotary_embedding_dim", 0) or b.shape(x)[3]
    cos, sin = (rotary_cache(c, i, positions, b.shape(x)[1]) for i in caches)
    y = rotate(c, x, cos, sin, width, bool(c.attr("interleaved", 0)))
    return b.permute(y, (0, 2, 1, 3)) if len(shape) == 4 else b.reshape(y, shape)


def rotary_cache(c: OpCall, i: int, positions: int, length: int) -> int:
    """Return the cache at the given positions, [batch or 1, length, 1, width / 2]. Live positions may be any."""
    b, cache = c.b, c.x(i)
    if not c.has(positions):
        cache = b.raise_rank(cache, 3)
    elif c.is_live(positions):
        ids = c.x(positions)
        rows = b.reshape(b.reduce(cache, (0,), keepdim=False), (1, 1, -1))
        ids = b.reshape(ids, (*b.shape(ids), 1)) if len(b.shape(ids)) == 2 else b.reshape(ids, (1, 1, 1))
        cache = b.expand(b.times(rows, b.join(ids, keeps_zero=False)), (b.shape(ids)[0], length, b.shape(rows)[2]))
    else:
        given = c.array(positions)
        wanted = given if given.ndim == 2 else given.reshape(-1)[:1, None] + np.arange(length)[None, :]
        width = b.shape(cache)[-1]
        cache = b.reshape(b.take(cache, 0, wanted.reshape(-1)), (*wanted.shape, width))
    shape = b.shape(cache)
    return b.reshape(cache, (*shape[:2], 1, shape[2]))


@operator("LinearAttention", primitives="Scan")
def linear_attention(c: OpCall) -> Result:
    """Scan a state [keys, values] that each step decays, corrects, adds to and reads."""
    b = c.b
    n_q, n_kv = c.attr("q_num_heads"), c.attr("kv_num_heads")
    q, k, v = (_steps(c, c.x(i), n) for i, n in ((0, n_q), (1, n_kv), (2, n_kv)))
    _, batch, _, width = b.shape(k)
    state = c.x(3) if c.has(3) else b.constant(False, (batch, n_kv, width, b.shape(v)[3]))
    extra = []
    for i in (4, 5):
        if c.has(i):
            last = c.shape(i)[-1]
            extra.append((i, _steps(c, c.x(i), n_kv if last % n_kv == 0 else 1)))

    def step(inner: Builder, values: Sequence[int]) -> list[int]:
        s, q_t, k_t, v_t, *rest = values
        more = dict(zip((i for i, _ in extra), rest, strict=True))
        if 4 in more:
            s = inner.times(s, inner.join(inner.reshape(more[4], (*inner.shape(more[4]), 1)), keeps_zero=False))
        if 5 in more:
            v_t = inner.times(more[5], inner.join(v_t, inner.product("bhdm,bhd->bhm", s, k_t)))
        s = inner.join(s, inner.product("bhd,bhm->bhdm", k_t, v_t))
        read = inner.take(s, 1, np.repeat(np.arange(n_kv), n_q // n_kv))
        return [s, inner.product("bhd,bhdm->bhm", q_t, read)]

    final, outputs = b.scan(step, [state], [q, k, v, *(node for _, node in extra)])
    steps, _, count, wide = b.shape(outputs)
    return [b.reshape(b.permute(outputs, (1, 0, 2, 3)), (batch, steps, count * wide)), final]


def _steps(c: OpCall, x: int, count: int) -> int:
    """[batch, steps, count*width] -> [steps, batch, count, width]."""
    batch, steps, total = c.b.shape(x)
    return c.b.permute(c.b.reshape(x, (batch, steps, count, total // count)), (1, 0, 2, 3))
