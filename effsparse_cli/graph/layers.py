"""Layers that both front ends have, in primitives: norms, attention, recurrent cells.

Biases and scales are arrays that are True where the number is not zero. Weights are functions that add them to a
builder, because the body of a recurrent layer is a separate graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.equations import LETTERS
from effsparse_cli.graph.primitives import Bools

AddWeight = Callable[[Builder], int]


def affine(b: Builder, x: int, *, scale: Bools | int | None = None, shift: Bools | int | None = None, axis: int) -> int:
    """x * scale + shift, aligned from `axis` on, each given as a node or an array that is True where it is not zero."""
    rank = len(b.shape(x))
    for value, gate in ((scale, True), (shift, False)):
        if value is None:
            continue
        if isinstance(value, int):
            shape = b.shape(value)
            node = b.reshape(value, (*shape, *(1,) * max(rank - axis % rank - len(shape), 0)))
        elif value.all() if gate else not value.any():
            continue
        else:
            node = b.constant(value.reshape(value.shape + (1,) * max(rank - axis % rank - value.ndim, 0)))
        x = b.times(x, node) if gate else b.join(x, node)
    return x


def layer_norm(
    b: Builder, x: int, axes: Sequence[int], scale: Bools | int | None = None, shift: Bools | int | None = None
) -> int:
    """Normalize over `axes`; scale and shift have the shape of those last axes."""
    return affine(b, b.mix(x, axes), scale=scale, shift=shift, axis=min(b.normalize_axes(x, axes)))


def group_norm(
    b: Builder, x: int, groups: int, scale: Bools | int | None = None, shift: Bools | int | None = None
) -> int:
    """Normalize groups of channels (axis 1); instance norm has one channel per group."""
    shape = b.shape(x)
    split = b.reshape(x, (shape[0], groups, -1))
    return affine(b, b.reshape(b.mix(split, (2,)), shape), scale=scale, shift=shift, axis=1)


def rms_norm(b: Builder, x: int, axes: Sequence[int], scale: Bools | int | None = None) -> int:
    """Divide by the root mean square over `axes`. Zero stays zero, unlike in layer norm."""
    norm = b.join(b.reduce(x, axes, keepdim=True), keeps_zero=False)
    return affine(b, b.times(x, norm), scale=scale, axis=min(b.normalize_axes(x, axes)))


def softmax(b: Builder, x: int, axis: int, allowed: Bools | None = None) -> int:
    """Softmax; `allowed` (broadcastable) is False where the score is masked out and nothing passes. A row that is
    masked out completely counts as allowed, because its result depends on how it is masked."""
    if allowed is None or allowed.all():
        return b.mix(x, (axis,), keeps_zero=False)
    full = np.broadcast_to(allowed, b.shape(x))
    full = full | ~full.any(axis=axis, keepdims=True)
    gate = b.constant(full)
    return b.times(b.mix(b.times(x, gate), (axis,), keeps_zero=False), gate)


@dataclass(frozen=True)
class Attended:
    """The nodes of an attention."""

    output: int
    scores: int
    weights: int


def attend(b: Builder, q: int, k: int, v: int, allowed: Bools | None = None, added: Sequence[int] = ()) -> Attended:
    """Scaled dot-product attention over [..., length, width] of equal rank; `added` is added to the scores."""
    rank = len(b.shape(q))
    batch = LETTERS[: rank - 2]
    scores = b.product(f"{batch}xz,{batch}yz->{batch}xy", q, k)
    weights = softmax(b, b.join(scores, *added) if added else scores, rank - 1, allowed)
    return Attended(b.product(f"{batch}xy,{batch}yz->{batch}xz", weights, v), scores, weights)


def attention(b: Builder, q: int, k: int, v: int, allowed: Bools | None = None, added: Sequence[int] = ()) -> int:
    """The output of `attend`."""
    return attend(b, q, k, v, allowed, added).output


def repeat_heads(b: Builder, x: int, heads: int) -> int:
    """Repeat the heads of keys or values [..., heads, length, width] for grouped-query attention."""
    axis = len(b.shape(x)) - 3
    own = b.shape(x)[axis]
    return b.take(x, axis, np.repeat(np.arange(own), heads // own))


def _gates(b: Builder, x: int, weight: AddWeight, bias: Bools | None) -> int:
    return affine(b, b.contract(x, weight(b)), shift=bias, axis=-1)


def _split(b: Builder, x: int, parts: int) -> list[int]:
    n = b.shape(x)[-1] // parts
    return [b.slice(x, -1, i * n, (i + 1) * n) for i in range(parts)]


def rnn(
    b: Builder, xs: int, h: int, *, w_x: AddWeight, w_h: AddWeight, bias: Bools | None = None, reverse: bool = False
) -> list[int]:
    """Return [final h, all h] for xs [steps, batch, in] and h [batch, hidden]; `bias` is the sum of both biases."""

    def step(body: Builder, values: Sequence[int]) -> list[int]:
        h, x = values
        new = body.join(_gates(body, x, w_x, bias), _gates(body, h, w_h, None))
        return [new, new]

    return b.scan(step, [h], [xs], reverse=reverse)


def lstm(
    b: Builder,
    xs: int,
    h: int,
    c: int,
    *,
    w_x: AddWeight,
    w_h: AddWeight,
    bias: Bools | None = None,
    reverse: bool = False,
    project: AddWeight | None = None,
    peepholes: dict[str, Bools] | None = None,
) -> list[int]:
    """Return [final h, final c, all h]. The rows of the weights are the gates in torch's order: i, f, g, o. `project`
    is the recurrent projection; `peepholes` maps a gate to its scales of c."""
    peep = peepholes or {}

    def step(body: Builder, values: Sequence[int]) -> list[int]:
        h, c, x = values
        raw = body.join(_gates(body, x, w_x, bias), _gates(body, h, w_h, None))
        gate = dict(zip("ifgo", _split(body, raw, 4), strict=True))

        def gate_value(name: str, cell: int) -> int:
            peephole = [body.times(cell, body.constant(peep[name]))] if name in peep else []
            return body.join(gate[name], *peephole, keeps_zero=False)

        new_c = body.join(body.times(gate_value("f", c), c), body.times(gate_value("i", c), gate["g"]))
        new_h = body.times(gate_value("o", new_c), new_c)
        if project is not None:
            new_h = body.contract(new_h, project(body))
        return [new_h, new_c, new_h]

    return b.scan(step, [h, c], [xs], reverse=reverse)


def gru(
    b: Builder,
    xs: int,
    h: int,
    *,
    w_x: AddWeight,
    w_h: AddWeight | tuple[AddWeight, AddWeight],
    bias_x: Bools | None = None,
    bias_h: Bools | None = None,
    reverse: bool = False,
) -> list[int]:
    """Return [final h, all h]. The rows of the weights are the gates in torch's order: r, z, n. With one recurrent
    weight the reset gate is applied after it (torch, ONNX linear_before_reset = 1); with two (rows of the gates, rows
    of the candidate) it is applied to h first."""

    def step(body: Builder, values: Sequence[int]) -> list[int]:
        h, x = values
        x_r, x_z, x_n = _split(body, _gates(body, x, w_x, bias_x), 3)
        if isinstance(w_h, tuple):
            gates = 2 * body.shape(h)[-1]
            first, last = (None, None) if bias_h is None else (bias_h[..., :gates], bias_h[..., gates:])
            h_r, h_z = _split(body, _gates(body, h, w_h[0], first), 2)
        else:
            h_r, h_z, h_n = _split(body, _gates(body, h, w_h, bias_h), 3)
        r, z = body.join(x_r, h_r, keeps_zero=False), body.join(x_z, h_z, keeps_zero=False)
        reset = _gates(body, body.times(r, h), w_h[1], last) if isinstance(w_h, tuple) else body.times(r, h_n)
        new = body.join(x_n, reset)
        kept, fresh = body.times(z, h), body.times(body.join(z, keeps_zero=False), new)
        result = body.join(kept, fresh)
        return [result, result]

    return b.scan(step, [h], [xs], reverse=reverse)
