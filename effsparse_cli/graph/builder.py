"""The builder that front ends make graphs with: one method per primitive, which computes the shape of its result, and
a few compositions that every front end needs (slice, pad, where, elementwise products)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from effsparse_cli.graph import primitives as p
from effsparse_cli.graph.equations import LETTERS, letter_sizes, split_equation
from effsparse_cli.graph.graph import Graph, Layer, Node, Note
from effsparse_cli.graph.primitives import Bools, CallPath, Ints, Primitive, Shape, Taps, View


class Builder:
    """A graph under construction. Values are node numbers; `node_name` is the name of the nodes added next."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.layers: dict[str, Layer] = {}
        self.node_name = ""
        self._concats: dict[tuple[int, ...], int] = {}

    def add(self, op: Primitive, inputs: Sequence[int], shape: Sequence[int]) -> int:
        self.nodes.append(Node(op, tuple(inputs), tuple(int(n) for n in shape), self.node_name))
        return len(self.nodes) - 1

    def rewind(self, count: int, layers: dict[str, Layer]) -> None:
        """Return to an earlier state with `count` nodes and these layers."""
        del self.nodes[count:]
        self.layers = layers
        self._concats = {inputs: node for inputs, node in self._concats.items() if node < count}

    def shape(self, x: int) -> Shape:
        return self.nodes[x].shape

    def finish(self, outputs: Sequence[int], unused: Sequence[str] = (), notes: Sequence[Note] = ()) -> Graph:
        return Graph(tuple(self.nodes), tuple(outputs), dict(self.layers), tuple(unused), tuple(notes))

    # Leaves

    def source(self, name: str, shape: Sequence[int]) -> int:
        return self.add(p.Source(name), (), shape)

    def constant(self, nonzero: Bools | bool, shape: Sequence[int] | None = None) -> int:
        """Add a constant; `nonzero` broadcasts to `shape` as in numpy."""
        array = np.asarray(nonzero, dtype=bool)
        full = tuple(array.shape if shape is None else shape)
        return self.add(p.Constant(_compress(array.reshape((1,) * (len(full) - array.ndim) + array.shape))), (), full)

    def weight(
        self, layer: Layer, shape: Sequence[int] | None = None, view: View | None = None, call: CallPath = ()
    ) -> int:
        """Add a use of a weight: as stored, reshaped to `shape`, or as `view` arranges it."""
        self.layers.setdefault(layer.name, layer)
        return self.add(p.Weight(layer.name, view or View(), call), (), layer.shape if shape is None else shape)

    # Contractions

    def contract(self, x: int, weight: int, windows: Sequence[Taps] = (), groups: int = 1) -> int:
        n, rest = self.shape(weight)[0], len(windows)
        x_shape = self.shape(x)
        batch = x_shape[: len(x_shape) - rest - 1]
        out = tuple(table.shape[1] for table in windows)
        return self.add(p.Contract(tuple(windows), groups), (x, weight), (*batch, n, *out))

    def product(self, equation: str, a: int, b: int) -> int:
        *terms, result = split_equation(equation)
        shapes = [self.shape(a), self.shape(b)]
        if [len(letters) for letters in terms] != [len(shape) for shape in shapes]:
            raise ValueError(f"{equation} does not fit {shapes}")
        sizes = letter_sizes(equation, shapes)
        return self.add(p.Product(equation.replace(" ", "")), (a, b), [sizes[letter] for letter in result])

    def times(self, a: int, b: int) -> int:
        """a * b, elementwise with broadcasting: a gate."""
        rank = max(len(self.shape(a)), len(self.shape(b)))
        letters = LETTERS[:rank]
        a, b = self.raise_rank(a, rank), self.raise_rank(b, rank)
        return self.product(f"{letters},{letters}->{letters}", a, b)

    def divide(self, a: int, b: int) -> int:
        """a / b; 1 / 0 is not zero."""
        return self.times(a, self.join(b, keeps_zero=False))

    # Elementwise and mixing

    def join(self, *xs: int, keeps_zero: bool = True) -> int:
        shape = np.broadcast_shapes(*(self.shape(x) for x in xs))
        return self.add(p.Join(keeps_zero), [self.raise_rank(x, len(shape)) for x in xs], shape)

    def mix(self, x: int, axes: Sequence[int], keeps_zero: bool = True) -> int:
        """Mix along the axes and keep the shape: softmax, normalization."""
        return self.add(p.Mix(self.normalize_axes(x, axes), keeps_zero), (x,), self.shape(x))

    def reduce(self, x: int, axes: Sequence[int] | None, keepdim: bool, keeps_zero: bool = True) -> int:
        """Reduce over the axes, or all if None: sum, mean, max."""
        shape = self.shape(x)
        chosen = self.normalize_axes(x, range(len(shape)) if axes is None else axes)
        kept = [1 if i in chosen else n for i, n in enumerate(shape)]
        y = self.add(p.Mix(chosen, keeps_zero), (x,), kept)
        return y if keepdim else self.reshape(y, [n for i, n in enumerate(shape) if i not in chosen])

    def where(self, condition: Bools, a: int, b: int) -> int:
        """numpy.where with a constant condition: a matters only where it holds, b only elsewhere."""
        condition = np.asarray(condition, dtype=bool)
        return self.join(self.times(a, self.constant(condition)), self.times(b, self.constant(~condition)))

    def opaque(self, label: str, xs: Sequence[int], shape: Sequence[int]) -> int:
        return self.add(p.Opaque(label), xs, shape)

    # Windows

    def window(self, x: int, taps: Sequence[Taps | None]) -> int:
        shape = [n if t is None else t.shape[1] for n, t in zip(self.shape(x), taps, strict=True)]
        return self.add(p.Window(tuple(taps)), (x,), shape)

    # Data movement

    def permute(self, x: int, dims: Sequence[int]) -> int:
        dims, same = self.normalize_axes(x, dims), tuple(range(len(dims)))
        if dims != same and isinstance(before := self.nodes[x].op, p.Permute):
            dims, (x,) = tuple(before.dims[d] for d in dims), self.nodes[x].inputs
        if dims == same:
            return x
        return self.add(p.Permute(dims), (x,), [self.shape(x)[d] for d in dims])

    def transpose(self, x: int, a: int, b: int) -> int:
        dims = list(range(len(self.shape(x))))
        dims[a], dims[b] = dims[b], dims[a]
        return self.permute(x, dims)

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        old = self.shape(x)
        known = math.prod(n for n in shape if n != -1)
        full = tuple(math.prod(old) // max(known, 1) if n == -1 else int(n) for n in shape)
        if full != old and isinstance(self.nodes[x].op, p.Reshape):
            (x,) = self.nodes[x].inputs
        return x if full == self.shape(x) else self.add(p.Reshape(), (x,), full)

    def raise_rank(self, x: int, rank: int) -> int:
        more, shape = (1,) * (rank - len(self.shape(x))), self.shape(x)
        if more and isinstance(op := self.nodes[x].op, p.Constant):
            return self.add(p.Constant(op.nonzero.reshape(more + op.nonzero.shape)), (), more + shape)
        return self.reshape(x, more + shape)

    def expand(self, x: int, shape: Sequence[int]) -> int:
        x = self.raise_rank(x, len(shape))
        full = tuple(n if m == -1 else m for n, m in zip(self.shape(x), shape, strict=True))
        return x if full == self.shape(x) else self.add(p.Expand(), (x,), full)

    def take(self, x: int, axis: int, index: Ints | Sequence[int]) -> int:
        shape = list(self.shape(x))
        axis %= len(shape)
        array = np.asarray(index, dtype=np.int64).reshape(-1)
        if len(array) == shape[axis] and np.array_equal(array, np.arange(len(array))):
            return x
        shape[axis] = len(array)
        return self.add(p.Take(axis, array), (x,), shape)

    def slice(self, x: int, axis: int, start: int | None, stop: int | None, step: int | None = 1) -> int:
        return self.take(x, axis, np.arange(self.shape(x)[axis])[start:stop:step])

    def take_one(self, x: int, axis: int, position: int) -> int:
        """Take one position along an axis and drop the axis."""
        shape = self.shape(x)
        axis %= len(shape)
        taken = self.take(x, axis, [position % shape[axis]])
        return self.reshape(taken, shape[:axis] + shape[axis + 1 :])

    def pad(self, x: int, axis: int, before: int, after: int, nonzero: bool = False) -> int:
        """Pad with zero or, if `nonzero`, with another constant. A negative width crops."""
        shape = self.shape(x)
        axis %= len(shape)
        n = shape[axis]
        index = np.arange(-before, n + after)
        index = np.where((index >= 0) & (index < n), index, -1)
        y = self.take(x, axis, index)
        if not nonzero or (index >= 0).all():
            return y
        return self.join(y, self.constant((index < 0).reshape([-1 if i == axis else 1 for i in range(len(shape))])))

    def gather(self, x: int, index: Ints) -> int:
        """Rearrange: `index` has the result's shape and holds flat positions of x, -1 for a zero."""
        flat = self.reshape(x, (-1,))
        return self.reshape(self.take(flat, 0, np.asarray(index).reshape(-1)), np.shape(index))

    def concat(self, inputs: Sequence[int], axis: int) -> int:
        """Concatenate. Starts from an earlier concatenation of the first inputs, as dense blocks have them."""
        xs, shape = list(inputs), list(self.shape(inputs[0]))
        axis %= len(shape)
        shape[axis] = sum(self.shape(x)[axis] for x in xs)
        for n in range(len(xs), 1, -1):
            if (axis, *xs[:n]) in self._concats:
                xs = [self._concats[axis, *xs[:n]], *xs[n:]]
                break
        if len(xs) == 1:
            return xs[0]
        return self._concats.setdefault((axis, *inputs), self.add(p.Concat(axis), xs, shape))

    def stack(self, xs: Sequence[int], axis: int) -> int:
        rank = len(self.shape(xs[0])) + 1
        axis %= rank
        grown = [self.reshape(x, (*self.shape(x)[:axis], 1, *self.shape(x)[axis:])) for x in xs]
        return self.concat(grown, axis)

    # Repetition

    def scan(
        self,
        make_body: Callable[[Builder, Sequence[int]], Sequence[int]],
        states: Sequence[int],
        scanned: Sequence[int] = (),
        invariants: Sequence[int] = (),
        steps: int | None = None,
        reverse: bool = False,
    ) -> list[int]:
        """Return the final states and the stacked results of a Scan. `make_body(builder, values)` takes the states,
        slices and invariants, and returns the new states and one slice of each result."""
        body = Builder()
        body.node_name = self.node_name
        shapes = [self.shape(s) for s in states] + [self.shape(s)[1:] for s in scanned]
        shapes += [self.shape(s) for s in invariants]
        if scanned:
            steps = self.shape(scanned[0])[0]
        results = list(make_body(body, [body.source(f"value {i}", s) for i, s in enumerate(shapes)]))
        self.layers.update({k: v for k, v in body.layers.items() if k not in self.layers})
        op = p.Scan(body.finish(results), len(states), len(scanned), steps, reverse)
        node = self.add(op, [*states, *scanned, *invariants], ())
        picked = []
        for i, result in enumerate(results):
            shape = body.shape(result)
            picked.append(self.add(p.Pick(i), (node,), shape if i < len(states) else (steps or 1, *shape)))
        return picked

    def normalize_axes(self, x: int, axes: Sequence[int]) -> tuple[int, ...]:
        rank = len(self.shape(x))
        return tuple(a % rank if rank else a for a in axes)


def _compress(array: Bools) -> Bools:
    """Reduce axes along which the array is uniform to size 1."""
    if array.size and (array.all() or not array.any()):
        return array[(slice(0, 1),) * array.ndim]
    for axis, n in enumerate(array.shape):
        first = array.take([0], axis) if n > 1 else None
        if first is not None and (array == first).all():
            array = first
    return array
