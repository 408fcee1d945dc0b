"""Steps of a random graph that add one primitive. Each takes a maker and returns one new value, or None if the pool
has no suitable values."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.graph import windows
from effsparse_cli.graph.equations import LETTERS
from effsparse_cli.graph.primitives import Taps
from tests.witnesses.maker import LARGEST, Maker


def table(m: Maker, size: int, repeats: bool = True) -> Taps:
    """Draw the geometry of one axis: that of a convolution or pooling, or sometimes a random one. With `repeats` False
    (for weights) a tap reads no position twice."""
    kernel, stride, dilation = m.number(1, 3), m.number(1, 2), m.number(1, 2)
    before, after = m.number(0, 2), m.number(0, 2)
    match m.number(0, 7):
        case 0:
            out = max((size - 1) * stride - before - after + dilation * (kernel - 1) + 1 + m.number(0, 1), 1)
            made = windows.transposed(out, size, kernel, stride=stride, dilation=dilation, before=before)
        case 1:
            made = windows.adaptive(size, m.number(1, 4 if repeats else size))
        case 2:
            out = windows.pooled_size(
                size, kernel, stride=stride, dilation=dilation, before=before, after=after, ceil=True
            )
            made = windows.sliding_to(out, size, kernel, stride=stride, dilation=dilation, before=before)
        case 3:
            rng = np.random.default_rng(m.number(0, 2**16))
            anywhere = np.concatenate([np.arange(size), [-1] * 3])
            made = rng.permuted(np.tile(anywhere, (kernel, 1)), axis=1)[:, : m.number(1, 3)]
        case _:
            made = windows.sliding(size, kernel, stride=stride, dilation=dilation, before=before, after=after)
    return made if made.shape[1] and made.shape[0] else windows.sliding(size, 1)


def probe(m: Maker, x: int) -> int:
    """Multiply by one weight per position, whose fate shows the state and the relevance of its position."""
    size = math.prod(m.b.shape(x))
    layer = m.layer((size, 1), "probe", m.choose((1.0, 0.9, 0.5)))
    return m.b.reshape(m.b.contract(m.b.reshape(x, (size,)), m.b.weight(layer), (), size), m.b.shape(x))


def patterned(m: Maker, x: int) -> int:
    """Set some positions of x to zero and some of those to a constant, so that all three states occur."""
    shape = m.b.shape(x)
    cut = m.b.times(x, m.b.constant(m.bools(shape, m.choose((0.5, 0.8)))))
    return m.b.join(cut, m.b.constant(m.bools(shape, 0.3))) if m.flip() else cut


def linear(m: Maker) -> int | None:
    x = m.value(1)
    if x is None:
        return None
    size = m.b.shape(x)[-1]
    groups = m.choose([g for g in (1, 1, 2, 3) if size % g == 0])
    return m.b.contract(x, m.weight((groups * m.number(1, 4 // groups), size // groups)), (), groups)


def convolution(m: Maker) -> int | None:
    x = m.value(2)
    if x is None:
        return None
    shape = m.b.shape(x)
    rank = m.number(1, len(shape) - 1)
    channels = shape[-rank - 1]
    groups = m.choose([g for g in (1, 2, 3, 4) if channels % g == 0])
    tables = [table(m, n, repeats=False) for n in shape[-rank:]]
    taps = [t.shape[0] for t in tables]
    weight = m.weight((groups * m.number(1, 2), channels // groups, *taps))
    return m.b.contract(x, weight, tables, groups)


def product(m: Maker) -> int | None:
    """Multiply two values by a random equation that fits them."""
    x, y = m.any_value(), m.any_value()
    first, second = m.b.shape(x), m.b.shape(y)
    letters = list(LETTERS[: len(first)])
    free, other, size = list(letters), [], dict(zip(letters, first, strict=True))
    for i, n in enumerate(second):
        same = [k for k in free if size[k] == n or 1 in (n, size[k])]
        letter = m.choose(same) if same and not m.rarely() else LETTERS[26 + i]
        free = [k for k in free if k != letter]
        other.append(letter)
        size[letter] = max(n, size.get(letter, 1))
    every = sorted(size)
    result = [k for k in every if m.number(0, 3)]
    if m.flip():
        result = result[::-1]
    if math.prod(size.values()) > 8 * LARGEST or math.prod(size[k] for k in result) > LARGEST:
        return None
    return m.b.product(f"{''.join(letters)},{''.join(other)}->{''.join(result)}", x, y)


def gate(m: Maker) -> int:
    x = m.any_value()
    other = thin(m, x) if m.flip() else m.fitted(m.any_value(), m.b.shape(x))
    return m.b.times(x, other) if m.flip() else m.b.divide(x, other)


def thin(m: Maker, x: int) -> int:
    """Reduce x so that it broadcasts against x, sometimes through a sigmoid: the branch of a squeeze-and-excite."""
    axes = [a for a in range(len(m.b.shape(x))) if m.flip()]
    reduced = m.b.reduce(x, axes, keepdim=True) if axes else x
    return m.b.join(reduced, keeps_zero=m.flip())


def scale_or_shift(m: Maker) -> int:
    x = m.any_value()
    shape = m.b.shape(x)
    part = tuple(1 if m.flip() else n for n in shape[m.number(0, len(shape)) :])
    constant = m.b.constant(m.nonzero(part), shape if m.rarely() else None)
    return m.b.times(x, constant) if m.flip() else m.b.join(x, constant, keeps_zero=m.flip())


def select(m: Maker) -> int:
    x = m.any_value()
    return m.b.where(m.nonzero(m.b.shape(x)), x, m.fitted(m.any_value(), m.b.shape(x)))


def join(m: Maker) -> int:
    x = m.any_value()
    others = [m.fitted(m.any_value(), m.b.shape(x)) for _ in range(m.number(0, 2))]
    return m.b.join(x, *others, keeps_zero=m.flip())


def mix(m: Maker) -> int:
    x = m.any_value()
    axes = [a for a in range(len(m.b.shape(x))) if m.flip()]
    if m.flip():
        return m.b.mix(x, axes, keeps_zero=m.flip())
    return m.b.reduce(x, axes if m.flip() else None, keepdim=m.flip(), keeps_zero=m.flip())


def window(m: Maker) -> int:
    x = m.any_value()
    return m.b.window(x, [table(m, n) if m.flip() else None for n in m.b.shape(x)])


def permute(m: Maker) -> int:
    x = m.any_value()
    rank = len(m.b.shape(x))
    return m.b.permute(x, [int(d) for d in np.random.default_rng(m.number(0, 9)).permutation(rank)])


def reshape(m: Maker) -> int:
    x = m.any_value()
    return m.b.reshape(x, factors(m, math.prod(m.b.shape(x))))


def factors(m: Maker, size: int) -> list[int]:
    shape = []
    for _ in range(m.number(0, 3)):
        shape.append(m.choose([n for n in range(1, size + 1) if size % n == 0]))
        size //= shape[-1]
    return [*shape, size]


def expand(m: Maker) -> int:
    x = m.any_value()
    shape = m.b.shape(x)
    grown = [m.number(1, 3) if n == 1 else -1 for n in shape]
    return m.b.expand(x, [m.number(1, 2), *grown] if m.flip() else grown)


def take(m: Maker) -> int | None:
    x = m.value(1)
    if x is None:
        return None
    axis = m.number(0, len(m.b.shape(x)) - 1)
    n = m.b.shape(x)[axis]
    match m.number(0, 3):
        case 0:
            return m.b.pad(x, axis, m.number(-(n > 1), 2), m.number(0, 2), nonzero=m.flip())
        case 1:
            return m.b.slice(x, axis, m.number(0, n - 1), None, m.choose((1, 2)))
        case 2:
            return m.b.take_one(x, axis, m.number(0, n - 1))
        case _:
            return m.b.take(x, axis, [m.number(-1, n - 1) for _ in range(m.number(1, 4))])


def concat(m: Maker) -> int | None:
    x = m.value(1)
    if x is None:
        return None
    shape = m.b.shape(x)
    axis = m.number(0, len(shape) - 1)
    xs = [x]
    for _ in range(m.number(1, 2)):
        xs.append(m.fitted(m.any_value(), (*shape[:axis], m.number(1, 2), *shape[axis + 1 :])))
    if m.flip():
        xs = xs[::-1]
    return m.b.concat(xs, axis) if m.flip() else m.b.stack([m.fitted(y, shape) for y in xs], axis)


def opaque(m: Maker) -> int:
    xs = [m.any_value() for _ in range(m.number(0, 2))]
    weights = [m.weight((m.number(1, 2), m.number(1, 3)))] if m.flip() or not xs else []
    return m.b.opaque("unknown", [*xs, *weights], [m.number(1, 3) for _ in range(m.number(0, 2))])


def constant(m: Maker) -> int:
    return m.b.constant(m.nonzero([m.number(1, 3) for _ in range(m.number(0, 3))]))
