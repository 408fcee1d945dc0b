"""Expand a graph into scalars: every position of every value becomes a sum of products of other scalars.

This is the first half of the brute-force witness (`tests/oracle.py` is the second). One rule per primitive, written
from the primitive's description, in pure Python.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import (
    Concat,
    Constant,
    Contract,
    Expand,
    Join,
    Mix,
    Opaque,
    Permute,
    Pick,
    Primitive,
    Product,
    Reshape,
    Scan,
    Source,
    Take,
    View,
    Weight,
    Window,
)

ZERO, CONSTANT, LIVE = 0, 1, 2

Index = tuple[int, ...]
Element = tuple[str, int]


@dataclass(eq=False)
class Scalar:
    """base + the sum over `terms` of the product of each term's factors."""

    base: int = ZERO
    terms: list[tuple[Scalar, ...]] = field(default_factory=list)
    element: Element | None = None
    nonzero: bool = False
    live: bool = False
    relevant: bool = False


@dataclass(frozen=True, eq=False)
class Value:
    """The scalars of one node in row-major order. Data movement shares scalars instead of making new ones."""

    shape: Index
    scalars: list[Scalar]

    def at(self, index: Sequence[int]) -> Scalar:
        """Return the scalar at `index`; an axis of size 1 broadcasts."""
        flat = 0
        for i, n in zip(index, self.shape, strict=True):
            flat = flat * n + (0 if n == 1 else i)
        return self.scalars[flat]


@dataclass(frozen=True, eq=False)
class Use:
    """One weight element and the two scalars that it connects."""

    element: Element
    source: Scalar
    target: Scalar


@dataclass(eq=False)
class Expansion:
    """The result of expanding a graph: all scalars, all uses, and for every element the scalars of its source channel
    and of its target channel at any position."""

    kept: dict[str, list[bool]]
    scalars: list[Scalar] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    sources: dict[Element, list[list[Scalar]]] = field(default_factory=dict)
    targets: dict[Element, list[list[Scalar]]] = field(default_factory=dict)

    def scalar(self, base: int = ZERO, element: Element | None = None) -> Scalar:
        made = Scalar(base, element=element)
        self.scalars.append(made)
        return made

    def value(self, shape: Index, base: int = ZERO) -> Value:
        return Value(shape, [self.scalar(base) for _ in range(math.prod(shape))])

    def ends(self, element: Element, source: list[Scalar], target: list[Scalar]) -> None:
        self.sources.setdefault(element, []).append(source)
        self.targets.setdefault(element, []).append(target)


def positions(shape: Sequence[int]) -> Iterator[Index]:
    return itertools.product(*(range(n) for n in shape))


def flatten(array: NDArray[Any]) -> list[Any]:
    """Return the elements of an array, row-major, as Python values."""
    return list(array.reshape(-1).tolist())


def expand_graph(found: Expansion, graph: Graph, given: Sequence[Value] | None) -> list[Value]:
    """Return the values of the graph's outputs. `given` are the sources of a Scan body."""
    values: list[Any] = []
    feed = None if given is None else iter(given)
    for node in graph.nodes:
        xs = [values[i] for i in node.inputs]
        if isinstance(node.op, Source) and feed is not None:
            values.append(next(feed))
        elif isinstance(node.op, Scan):
            values.append(expand_scan(found, node.op, xs))
        else:
            values.append(expand_node(found, node.op, xs, node.shape))
    return [values[i] for i in graph.outputs]


def expand_node(found: Expansion, op: Primitive, xs: list[Any], shape: Index) -> Value:
    match op:
        case Source():
            return found.value(shape, LIVE)
        case Constant():
            stored = Value(op.nonzero.shape, flatten(op.nonzero))  # a Value of booleans, to broadcast
            return Value(shape, [found.scalar(CONSTANT if stored.at(i) else ZERO) for i in positions(shape)])
        case Weight():
            return expand_weight(found, op.layer, op.view, shape)
        case Contract():
            return expand_contract(found, op, xs[0], xs[1], shape)
        case Product():
            return expand_product(found, op.equation, xs[0], xs[1], shape)
        case Join():
            out = found.value(shape, ZERO if op.keeps_zero else CONSTANT)
            for i, scalar in zip(positions(shape), out.scalars, strict=True):
                scalar.terms = [(x.at(i),) for x in xs]
            return out
        case Mix():
            out = found.value(shape, ZERO if op.keeps_zero else CONSTANT)
            for i in positions(xs[0].shape):
                lines = [range(n) if axis in op.axes else (i[axis],) for axis, n in enumerate(shape)]
                for j in itertools.product(*lines):
                    out.at(j).terms.append((xs[0].at(i),))
            return out
        case Window():
            return expand_window(found, op, xs[0], shape)
        case Opaque():
            return expand_opaque(found, xs, shape)
        case Pick():
            return Value(shape, xs[0][op.result].scalars)
        case _:
            return move(found, op, xs, shape)


def move(found: Expansion, op: Primitive, xs: list[Value], shape: Index) -> Value:
    x = xs[0]
    match op:
        case Permute():
            inverse = [op.dims.index(axis) for axis in range(len(op.dims))]
            return Value(shape, [x.at([i[k] for k in inverse]) for i in positions(shape)])
        case Reshape():
            return Value(shape, list(x.scalars))
        case Expand():
            return Value(shape, [x.at(i) for i in positions(shape)])
        case Take():
            index, axis = flatten(op.index), op.axis
            picked = [(*i[:axis], index[i[axis]], *i[axis + 1 :]) for i in positions(shape)]
            return Value(shape, [found.scalar() if p[axis] < 0 else pick(x, p) for p in picked])
        case Concat():
            before = [sum(y.shape[op.axis] for y in xs[:k]) for k in range(len(xs))]
            out: list[Scalar] = []
            for i in positions(shape):
                k = max(k for k, start in enumerate(before) if start <= i[op.axis] and xs[k].shape[op.axis])
                out.append(pick(xs[k], (*i[: op.axis], i[op.axis] - before[k], *i[op.axis + 1 :])))
            return Value(shape, out)
    raise TypeError(f"the oracle has no rule for {op}")


def pick(x: Value, index: Index) -> Scalar:
    """Return the scalar at an index inside the shape, without broadcasting."""
    if any(not 0 <= i < n for i, n in zip(index, x.shape, strict=True)):
        raise IndexError(f"{index} is outside {x.shape}")
    return x.at(index)


def expand_weight(found: Expansion, layer: str, view: View, shape: Index) -> Value:
    kept = found.kept[layer]
    if view.index is not None:
        index = flatten(view.index)
    else:
        steps = view.strides or [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        index = [view.offset + sum(i * s for i, s in zip(p, steps, strict=True)) for p in positions(shape)]
    zero = found.scalar()  # one scalar for all pruned elements and literal zeros: they pass nothing
    return Value(shape, [found.scalar(CONSTANT, (layer, e)) if e >= 0 and kept[e] else zero for e in index])


def expand_contract(found: Expansion, op: Contract, x: Value, weight: Value, shape: Index) -> Value:
    tables = [table.tolist() for table in op.windows]
    axis = len(shape) - len(tables) - 1
    n, c = weight.shape[0] // op.groups, weight.shape[1]
    out = found.value(shape)
    channels: dict[tuple[str, int], list[Scalar]] = {}
    for name, value in (("source", x), ("target", out)):
        for i in positions(value.shape):
            channels.setdefault((name, i[axis]), []).append(value.at(i))
    for w, factor in zip(positions(weight.shape), weight.scalars, strict=True):
        if factor.element is None:
            continue
        channel = w[0] // n * c + w[1]
        found.ends(factor.element, channels["source", channel], channels["target", w[0]])
        for batch, o in itertools.product(positions(shape[:axis]), positions(shape[axis + 1 :])):
            read = [table[k][i] for table, k, i in zip(tables, w[2:], o, strict=True)]
            if min(read, default=0) >= 0:
                source, target = pick(x, (*batch, channel, *read)), pick(out, (*batch, w[0], *o))
                target.terms.append((source, factor))
                found.uses.append(Use(factor.element, source, target))
    return out


def expand_product(found: Expansion, equation: str, a: Value, b: Value, shape: Index) -> Value:
    operands, result = equation.split("->")
    first, second = operands.split(",")
    size: dict[str, int] = {}
    for letter, n in [*zip(first, a.shape, strict=True), *zip(second, b.shape, strict=True)]:
        size[letter] = max(n, size.get(letter, 1)) if n and size.get(letter, 1) else 0
    letters = list(size)
    out = found.value(shape)
    for point in positions([size[letter] for letter in letters]):
        where = dict(zip(letters, point, strict=True))
        left, right = a.at([where[k] for k in first]), b.at([where[k] for k in second])
        target = out.at([where[k] for k in result])
        target.terms.append((left, right))
    return out


def expand_window(found: Expansion, op: Window, x: Value, shape: Index) -> Value:
    tables = [None if taps is None else taps.tolist() for taps in op.taps]
    out = found.value(shape)
    for i, target in zip(positions(shape), out.scalars, strict=True):
        lines = [[o] if t is None else [row[o] for row in t if row[o] >= 0] for t, o in zip(tables, i, strict=True)]
        target.terms = [(pick(x, p),) for p in itertools.product(*lines)]
    return out


def expand_opaque(found: Expansion, xs: list[Value], shape: Index) -> Value:
    """The result of an unknown operator is never known to be zero. Each of its weight elements can change the whole
    result, whether or not it has a live input."""
    entering = found.scalar()
    entering.terms = [(s,) for x in xs for s in x.scalars]
    out = found.value(shape, CONSTANT)
    for target in out.scalars:
        target.terms = [(entering,)]
    alive = found.scalar(LIVE)
    for element in (s.element for x in xs for s in x.scalars if s.element is not None):
        found.uses += [Use(element, alive, target) for target in out.scalars]
        found.ends(element, [alive], out.scalars)
    return out


def expand_scan(found: Expansion, op: Scan, xs: list[Value]) -> list[Value]:
    """Expand the body once per step. With any number of steps the states feed back into themselves: a cycle."""
    states = xs[: op.states]
    scanned, invariants = xs[op.states : op.states + op.scanned], xs[op.states + op.scanned :]
    if op.steps is None:
        loop = [found.value(state.shape) for state in states]
        new = expand_graph(found, op.body, [*loop, *invariants])
        for joined, start, after in zip(loop, states, new, strict=True):
            for scalar, first, later in zip(joined.scalars, start.scalars, after.scalars, strict=True):
                scalar.terms = [(first,), (later,)]
        return loop
    stacked: dict[int, list[Value]] = {}
    for step in reversed(range(op.steps)) if op.reverse else range(op.steps):
        slices = [Value(x.shape[1:], x.scalars[step * (n := math.prod(x.shape[1:])) : (step + 1) * n]) for x in scanned]
        results = expand_graph(found, op.body, [*states, *slices, *invariants])
        states, stacked[step] = results[: op.states], results[op.states :]
    rows = [[stacked[step][k] for step in range(op.steps)] for k in range(len(op.body.outputs) - op.states)]
    return [*states, *(Value((op.steps, *row[0].shape), [s for v in row for s in v.scalars]) for row in rows)]
