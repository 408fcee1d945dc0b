"""One rule per primitive, forward and backward, written once for every semiring.

Forward, a value is two arrays: `live` (paths from an input) and `nonzero` (not always zero: live or
constant). Backward, it is one: paths to an output. Linear primitives treat both forward arrays alike;
only Product looks at the difference between zero and constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from effsparse_cli.graph.equations import split_equation
from effsparse_cli.graph.primitives import (
    Concat,
    Expand,
    Join,
    Mix,
    Opaque,
    Permute,
    Primitive,
    Product,
    Reshape,
    Shape,
    Take,
    Window,
)
from effsparse_cli.paths.algebra import Arrays, Flow, T

ONE = np.ones((), bool)


def ones(arrays: Arrays[T], shape: Shape) -> T:
    return arrays.lift(ONE.reshape((1,) * len(shape)), shape)


def zeros(arrays: Arrays[T], shape: Shape) -> T:
    return arrays.lift(~ONE.reshape((1,) * len(shape)), shape)


def push(arrays: Arrays[T], op: Primitive, shape: Shape, flows: Sequence[Flow[T]], shapes: Sequence[Shape]) -> Flow[T]:
    """Go forward through any primitive that is neither a value, a contraction by a weight, nor a scan."""
    if isinstance(op, Product):
        return _multiply(arrays, op, flows)
    live = _apply(arrays, op, shape, [f.live for f in flows], shapes)
    if isinstance(op, Opaque) or (isinstance(op, Join | Mix) and not op.keeps_zero):
        return Flow(live, ones(arrays, shape))
    if all(f.nonzero is f.live for f in flows):
        return Flow(live, live)
    if arrays.is_one(live):
        return Flow(live, arrays.support(live))
    return Flow(live, arrays.support(_apply(arrays, op, shape, [f.nonzero for f in flows], shapes)))


def pull(
    arrays: Arrays[T], op: Primitive, shape: Shape, flows: Sequence[Flow[T]], shapes: Sequence[Shape], y: T
) -> list[T]:
    """Go backward through the same primitives: return the relevance of each input."""
    if isinstance(op, Product):
        return _relevant_factors(arrays, op, shape, flows, shapes, y)
    return _adjoint(arrays, op, shape, shapes, y)


def _multiply(arrays: Arrays[T], op: Product, flows: Sequence[Flow[T]]) -> Flow[T]:
    """A product is live where one factor is live and the other is not zero."""
    a, b = flows
    if a.live is a.nonzero and b.live is b.nonzero:
        live = arrays.product(op.equation, a.live, b.live)
        return Flow(live, live)
    live = arrays.plus(
        [
            arrays.product(op.equation, a.live, arrays.support(b.nonzero)),
            arrays.product(op.equation, arrays.support(a.nonzero), b.live),
        ]
    )
    nonzero = arrays.product(op.equation, arrays.support(a.nonzero), arrays.support(b.nonzero))
    return Flow(live, arrays.support(nonzero))


def _relevant_factors(
    arrays: Arrays[T], op: Product, shape: Shape, flows: Sequence[Flow[T]], shapes: Sequence[Shape], y: T
) -> list[T]:
    """A factor is relevant where the other one is not zero."""
    pulled = []
    for me, other in ((0, 1), (1, 0)):
        equation, full, summed, reduced, own = _factor(op.equation, shape, tuple(shapes), me)
        back = arrays.product(equation, y, arrays.support(flows[other].nonzero))
        back = arrays.total(arrays.expand(back, full), summed)
        pulled.append(arrays.expand(arrays.reshape(back, reduced, own), shapes[me]))
    return pulled


@lru_cache(maxsize=1024)
def _factor(
    equation: str, shape: Shape, shapes: tuple[Shape, ...], me: int
) -> tuple[str, Shape, tuple[int, ...], Shape, Shape]:
    """Describe how to compute the relevance of one factor: the equation that multiplies the relevance of the result by
    the other factor, the shape of that product, the axes to sum, the shape after that, and the shape as a factor, with
    size 1 for axes that are uniform."""
    *letters, result = split_equation(equation)
    other = 1 - me
    mine = "".join(c for c in letters[me] if c in result or c in letters[other])
    sizes = dict(zip(letters[other] + result, shapes[other] + shape, strict=True))
    full = tuple(max(sizes[c], shapes[me][letters[me].index(c)]) for c in mine)
    own = tuple(n if c in mine else 1 for c, n in zip(letters[me], shapes[me], strict=True))
    summed = tuple(i for i, c in enumerate(mine) if shapes[me][letters[me].index(c)] == 1 and full[i] > 1)
    reduced = tuple(1 if i in summed else n for i, n in enumerate(full))
    return f"{result},{letters[other]}->{mine}", full, summed, reduced, own


def _apply(arrays: Arrays[T], op: Primitive, shape: Shape, xs: Sequence[T], shapes: Sequence[Shape]) -> T:
    match op:
        case Join():
            return arrays.expand(arrays.plus(xs), shape)
        case Mix(axes):
            return arrays.expand(arrays.total(xs[0], axes), shape)
        case Window(taps):
            y = xs[0]
            for axis, table in enumerate(taps):
                y = y if table is None else arrays.window(y, axis, table)
            return y
        case Permute(dims):
            return arrays.permute(xs[0], dims)
        case Reshape():
            return arrays.reshape(xs[0], shapes[0], shape)
        case Expand():
            return arrays.expand(xs[0], shape)
        case Take(axis, index):
            return arrays.take(xs[0], axis, index)
        case Opaque():
            return arrays.expand(arrays.reshape(level(arrays, xs, shapes), (), (1,) * len(shape)), shape)
        case Concat(axis):
            return arrays.concat(xs, axis, [s[axis] for s in shapes])
        case _:
            raise TypeError(f"no rule for {type(op).__name__}")


def _adjoint(arrays: Arrays[T], op: Primitive, shape: Shape, shapes: Sequence[Shape], y: T) -> list[T]:
    match op:
        case Join() | Expand():
            return [_shrink(arrays, y, shape, s) for s in shapes]
        case Mix(axes):
            return [arrays.expand(arrays.total(y, axes), shapes[0])]
        case Window(taps):
            for axis, table in enumerate(taps):
                y = y if table is None else arrays.unwindow(y, axis, table, shapes[0][axis])
            return [y]
        case Permute(dims):
            return [arrays.permute(y, [int(d) for d in np.argsort(dims)])]
        case Reshape():
            return [arrays.reshape(y, shape, shapes[0])]
        case Take(axis, index):
            return [arrays.put(y, axis, index, shapes[0][axis])]
        case Opaque():
            whole = level(arrays, [y], [shape])
            return [arrays.expand(arrays.reshape(whole, (), (1,) * len(s)), s) for s in shapes]
        case Concat(axis):
            return arrays.split(y, axis, [s[axis] for s in shapes])
        case _:
            raise TypeError(f"no rule for {type(op).__name__}")


def level(arrays: Arrays[T], xs: Sequence[T], shapes: Sequence[Shape]) -> T:
    """Return the sum of everything, an array without axes."""
    sums = [arrays.total(x, range(len(s))) for x, s in zip(xs, shapes, strict=True)]
    levels = [arrays.reshape(x, (1,) * len(s), ()) for x, s in zip(sums, shapes, strict=True)]
    return arrays.plus([zeros(arrays, ()), *levels])


def _shrink(arrays: Arrays[T], y: T, shape: Shape, target: Shape) -> T:
    """Apply the adjoint of broadcasting."""
    if shape == target:
        return y
    return arrays.total(y, [i for i, (n, m) in enumerate(zip(shape, target, strict=True)) if n != m])
