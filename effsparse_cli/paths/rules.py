"""One rule per primitive, forward and backward, written once for every semiring.

Forward, a value is two arrays: `live` (paths from an input) and `nonzero` (not always zero: live or
constant). Backward, it is one: paths to an output. Linear primitives treat both forward arrays alike;
only Product looks at the difference between zero and constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from effsparse_cli.graph.primitives import (
    Concat,
    Expand,
    Join,
    Mix,
    Permute,
    Primitive,
    Product,
    Reshape,
    Shape,
    Take,
    Window,
)
from effsparse_cli.paths.algebra import Algebra, T

ONE = np.ones((), bool)


@dataclass(frozen=True, eq=False)
class Flow(Generic[T]):
    live: T
    nonzero: T


def ones(algebra: Algebra[T], shape: Shape) -> T:
    return algebra.lift(ONE.reshape((1,) * len(shape)), shape)


def zeros(algebra: Algebra[T], shape: Shape) -> T:
    return algebra.lift(~ONE.reshape((1,) * len(shape)), shape)


def push(
    algebra: Algebra[T], op: Primitive, shape: Shape, flows: Sequence[Flow[T]], shapes: Sequence[Shape]
) -> Flow[T]:
    """Forward through any primitive that is neither a value, a contraction by a weight, nor a scan."""
    if isinstance(op, Product):
        return _multiply(algebra, op, flows)
    live = _apply(algebra, op, shape, [f.live for f in flows], shapes)
    if isinstance(op, Join | Mix) and not op.keeps_zero:
        return Flow(live, ones(algebra, shape))
    if all(f.nonzero is f.live for f in flows):
        return Flow(live, live)
    if algebra.everywhere(live):
        return Flow(live, algebra.support(live))
    return Flow(live, algebra.support(_apply(algebra, op, shape, [f.nonzero for f in flows], shapes)))


def pull(
    algebra: Algebra[T], op: Primitive, shape: Shape, flows: Sequence[Flow[T]], shapes: Sequence[Shape], y: T
) -> list[T]:
    """Backward through the same primitives: the relevance of each input."""
    if isinstance(op, Product):
        return _relevant_factors(algebra, op, shape, flows, shapes, y)
    return _adjoint(algebra, op, shape, shapes, y)


def _multiply(algebra: Algebra[T], op: Product, flows: Sequence[Flow[T]]) -> Flow[T]:
    """a * b is live where one is live and the other not zero."""
    a, b = flows
    if a.live is a.nonzero and b.live is b.nonzero:
        live = algebra.product(op.equation, a.live, b.live)
        return Flow(live, live)
    live = algebra.plus(
        [
            algebra.product(op.equation, a.live, algebra.support(b.nonzero)),
            algebra.product(op.equation, algebra.support(a.nonzero), b.live),
        ]
    )
    nonzero = algebra.product(op.equation, algebra.support(a.nonzero), algebra.support(b.nonzero))
    return Flow(live, algebra.support(nonzero))


def _relevant_factors(
    algebra: Algebra[T], op: Product, shape: Shape, flows: Sequence[Flow[T]], shapes: Sequence[Shape], y: T
) -> list[T]:
    """a matters where b is not zero, and the other way round."""
    terms, result = op.equation.split("->")
    letters = terms.split(",")
    pulled = []
    for me, other in ((0, 1), (1, 0)):
        mine = "".join(c for c in letters[me] if c in result or c in letters[other])
        side = algebra.support(flows[other].nonzero)
        back = algebra.product(f"{result},{letters[other]}->{mine}", y, side)
        sizes = dict(zip(letters[other] + result, shapes[other] + shape, strict=True))
        full = tuple(max(sizes[c], shapes[me][letters[me].index(c)]) for c in mine)
        own = tuple(n if c in mine else 1 for c, n in zip(letters[me], shapes[me], strict=True))
        summed = [i for i, c in enumerate(mine) if shapes[me][letters[me].index(c)] == 1 and full[i] > 1]
        back = algebra.total(algebra.expand(back, full), summed) if summed else back
        reduced = tuple(1 if i in summed else n for i, n in enumerate(full))
        pulled.append(algebra.expand(algebra.reshape(back, reduced, own), shapes[me]))
    return pulled


def _apply(algebra: Algebra[T], op: Primitive, shape: Shape, xs: Sequence[T], shapes: Sequence[Shape]) -> T:
    match op:
        case Join():
            return algebra.expand(algebra.plus(xs), shape)
        case Mix(axes):
            return algebra.expand(algebra.total(xs[0], axes), shape)
        case Window(taps):
            y = xs[0]
            for axis, table in enumerate(taps):
                y = y if table is None else algebra.window(y, axis, table)
            return y
        case Permute(dims):
            return algebra.permute(xs[0], dims)
        case Reshape():
            return algebra.reshape(xs[0], shapes[0], shape)
        case Expand():
            return algebra.expand(xs[0], shape)
        case Take(axis, index):
            return algebra.take(xs[0], axis, index)
        case Concat(axis):
            return algebra.concat(xs, axis, [s[axis] for s in shapes])
        case _:
            raise TypeError(f"no rule for {type(op).__name__}")


def _adjoint(algebra: Algebra[T], op: Primitive, shape: Shape, shapes: Sequence[Shape], y: T) -> list[T]:
    match op:
        case Join() | Expand():
            return [_shrink(algebra, y, shape, s) for s in shapes]
        case Mix(axes):
            return [algebra.expand(algebra.total(y, axes), shapes[0])]
        case Window(taps):
            for axis, table in enumerate(taps):
                y = y if table is None else _unwindow(algebra, y, axis, table, shapes[0][axis])
            return [y]
        case Permute(dims):
            return [algebra.permute(y, [int(d) for d in np.argsort(dims)])]
        case Reshape():
            return [algebra.reshape(y, shape, shapes[0])]
        case Take(axis, index):
            return [algebra.put(y, axis, index, shapes[0][axis])]
        case Concat(axis):
            ends = np.cumsum([s[axis] for s in shapes])
            return [algebra.take(y, axis, np.arange(e - s[axis], e)) for e, s in zip(ends, shapes, strict=True)]
        case _:
            raise TypeError(f"no rule for {type(op).__name__}")


def _shrink(algebra: Algebra[T], y: T, shape: Shape, target: Shape) -> T:
    """The adjoint of broadcasting."""
    return algebra.total(y, [i for i, (n, m) in enumerate(zip(shape, target, strict=True)) if n != m])


def _unwindow(
    algebra: Algebra[T], y: T, axis: int, table: np.ndarray[tuple[int, ...], np.dtype[np.integer]], size: int
) -> T:
    """The adjoint of a window: every tap puts its output position back where it was read."""
    return algebra.plus([algebra.put(y, axis, row, size) for row in table])
