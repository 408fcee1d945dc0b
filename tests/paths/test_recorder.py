"""Verbs in C give what plain arrays give, whatever axes a value has its channels along."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from effsparse_cli import kernel
from effsparse_cli.graph.primitives import Bools, Ints, Shape
from effsparse_cli.kernel import compiled
from effsparse_cli.kernel.bits import pack
from effsparse_cli.paths.boolean import BitWeights
from effsparse_cli.paths.forms import Form, form_of, value_from
from effsparse_cli.paths.lattice import DENSE
from effsparse_cli.paths.maps import dense
from effsparse_cli.paths.packing import Tight, lay_out
from effsparse_cli.paths.recorder import Recorder, Register
from effsparse_cli.paths.recording import Program
from effsparse_cli.paths.replay import ask


@dataclass(frozen=True)
class Drawn:
    """`array` has size 1 on axes along which it is equal; `form` says the same."""

    array: Bools
    shape: Shape
    form: Form

    @property
    def full(self) -> Bools:
        return np.ascontiguousarray(np.broadcast_to(self.array, self.shape))


def form_along(array: Bools, axes: Sequence[int]) -> Form:
    """With channels along some axes, and maps over the others."""
    plain = form_of(array)
    along = [axis for axis in axes if array.shape[axis] > 1]
    others = [axis for axis in range(array.ndim) if axis not in along]
    n, positions = (math.prod(array.shape[axis] for axis in some) for some in (along, others))
    if isinstance(plain, int) or positions == 1:
        return plain
    found = kernel.number(pack(array.transpose([*along, *others]).reshape(n, positions)), n, positions)
    assert not isinstance(found, int)
    numbers, table = found
    if table is None:
        return plain
    return sum(1 << axis for axis in along), array.shape, numbers, table


@st.composite
def values(draw: st.DrawFn, shape: Shape, axes: Sequence[int] | None = None) -> Drawn:
    """With channels along the given axes, or along any."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    stored = tuple(draw(st.sampled_from([n, n, n, 1])) for n in shape)
    array = random.random(stored) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.5, 0.9, 1.0]))
    for axis in range(len(shape)):
        if draw(st.booleans()):  # few maps differ
            array = np.take(array, random.integers(0, max(stored[axis] // 2, 1), stored[axis]), axis)
    return Drawn(array, shape, form_along(array, draw(some_of(shape)) if axes is None else axes))


def some_of(shape: Shape) -> st.SearchStrategy[list[int]]:
    return st.sets(st.integers(0, len(shape) - 1)).map(sorted)


SIZES = st.integers(1, 5)
SHAPES = st.lists(SIZES, min_size=1, max_size=4).map(tuple) | st.tuples(*[st.integers(2, 4)] * 3)


def run(given_: Sequence[Drawn], record: Callable[[Recorder, list[Register]], Sequence[Register]]) -> list[Bools]:
    """What becomes of values by a program with these instructions."""
    recorder = Recorder(lay_out({}, {}))
    results = record(recorder, [recorder.constant(each.form, len(each.shape)) for each in given_])
    compiled_, _ = recorder.compile()
    program = Program(lay_out({}, {}), Tight(0, b"", _none), b"", recorder.calls, (), (), (), (), compiled_)
    asked = partial(ask, program, BitWeights({}))
    done = compiled.run(program.compiled, np.empty(0, np.uint64), b"", _none, asked, _none, False)[0]
    return [dense(value_from(compiled.value(done, result.number), result.rank)) for result in results]


def _none(*_: object) -> Any:
    raise AssertionError("there are no weights here")


def same(found: Bools, expected: Bools) -> None:
    np.testing.assert_array_equal(np.broadcast_to(found, expected.shape), expected)


@settings(max_examples=400)
@given(st.data(), SHAPES, st.integers(1, 4))
def test_elementwise(data: st.DataObject, shape: Shape, count: int) -> None:
    usual = data.draw(some_of(shape))
    drawn = [data.draw(st.one_of(values(shape), values(shape, usual))) for _ in range(count)]
    letters = "abcd"[: len(shape)]
    equation = f"{letters},{letters}->{letters}"
    plus, times = run(drawn, lambda r, xs: [r.plus(xs), r.product(equation, xs[0], xs[-1])])
    same(plus, np.logical_or.reduce([each.full for each in drawn]))
    same(times, drawn[0].full & drawn[-1].full)


EQUATIONS = [
    "bhqd,bhkd->bhqk",
    "bhqk,bhkd->bhqd",
    "ab,bc->ac",
    "ab,cb->ca",
    "abc,ac->b",
    "a,b->ba",
    "ab,ab->",
    "ab,a->ab",
]


@given(st.data(), st.sampled_from(EQUATIONS), st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES))
def test_products(data: st.DataObject, equation: str, sizes: tuple[int, ...]) -> None:
    left, right = equation.split("->")[0].split(",")
    size = dict(zip("bhqkd" if "q" in equation else "abcde", sizes, strict=True))
    a, b = (data.draw(values(tuple(size[letter] for letter in term))) for term in (left, right))
    (found,) = run([a, b], lambda r, xs: [r.product(equation, xs[0], xs[1])])
    same(found, np.einsum(equation, a.full.astype(int), b.full.astype(int)) > 0)


@given(st.data(), SHAPES)
def test_sums_and_permutations(data: st.DataObject, shape: Shape) -> None:
    a, dims = data.draw(values(shape)), data.draw(st.permutations(range(len(shape))))
    axes = sorted(data.draw(st.sets(st.integers(0, len(shape) - 1))))
    total, permuted = run([a], lambda r, xs: [r.total(xs[0], axes), r.permute(xs[0], dims)])
    same(total, np.asarray(a.full.any(axis=tuple(axes), keepdims=True)))
    same(permuted, a.full.transpose(dims))


FACTORS = [(2, 3, 4), (6, 4), (24,), (2, 12), (1, 24), (4, 6), (2, 3, 1, 4), (1, 1, 24), (3, 8), (2, 2, 2, 3), (8, 3)]


@given(st.data(), st.sampled_from(FACTORS), st.sampled_from(FACTORS))
def test_reshapes(data: st.DataObject, old: Shape, new: Shape) -> None:
    a = data.draw(values(old))
    (found,) = run([a], lambda r, xs: [r.reshape(xs[0], old, new)])
    full = np.broadcast_to(found, new) if found.ndim == len(new) else found
    same(full, a.full.reshape(new))


@st.composite
def places_of(draw: st.DrawFn, size: int, count: int) -> Ints:
    """Any places, or runs of neighbours; -1 stands for none."""
    if draw(st.booleans()):
        return np.array(draw(st.lists(st.integers(-1, size - 1), min_size=count, max_size=count)))
    return (draw(st.integers(0, size)) + np.arange(count)) % (size + 1) - 1


@settings(max_examples=300)
@given(st.data(), SHAPES, st.integers(1, 7))
def test_taken_and_put(data: st.DataObject, shape: Shape, count: int) -> None:
    a, axis = data.draw(values(shape)), data.draw(st.integers(0, len(shape) - 1))
    index, places = data.draw(places_of(shape[axis], count)), data.draw(places_of(7, shape[axis]))
    taken, put = run([a], lambda r, xs: [r.take(xs[0], axis, index), r.put(xs[0], axis, places, 7)])
    same(taken, DENSE.take(a.full, axis, index))
    same(put, DENSE.put(a.full, axis, places, 7))


@settings(max_examples=300)
@given(st.data(), SHAPES, st.lists(SIZES, min_size=1, max_size=4))
def test_joined_and_split(data: st.DataObject, shape: Shape, sizes: list[int]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    usual = sorted({axis, *data.draw(some_of(shape))})
    shapes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in sizes]
    parts = [data.draw(st.one_of(values(each), values(each, usual))) for each in shapes]
    (joined,) = run(parts, lambda r, xs: [r.concat(xs, axis, sizes)])
    same(joined, np.concatenate([part.full for part in parts], axis=axis))
    whole = data.draw(values((*shape[:axis], sum(sizes), *shape[axis + 1 :])))
    found = run([whole], lambda r, xs: r.split(xs[0], axis, sizes))
    for part, expected in zip(found, np.split(whole.full, np.cumsum(sizes)[:-1], axis=axis), strict=True):
        same(part, expected)


@settings(max_examples=300)
@given(st.data(), SHAPES, st.integers(1, 90), st.integers(1, 3), st.integers(1, 40))
def test_windows(data: st.DataObject, shape: Shape, size: int, taps: int, out: int) -> None:
    """Any table of taps, among them those of resizing, which read a position more than once."""
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:axis], size, *shape[axis + 1 :])
    if data.draw(st.booleans()):
        start, stride, dilation = (data.draw(st.integers(low, 3)) for low in (-3, 1, 1))
        table = start + dilation * np.arange(taps)[:, None] + stride * np.arange(out)
        table = np.where((table >= 0) & (table < size), table, -1)
    else:
        places = st.lists(st.integers(-1, size - 1), min_size=taps * out, max_size=taps * out)
        table = np.array(data.draw(places)).reshape(taps, out)
    a, b = (data.draw(values((*shape[:axis], n, *shape[axis + 1 :]))) for n in (shape[axis], out))
    forward, back = run(
        [a, b], lambda r, xs: [r.window(xs[0], axis, table), r.unwindow(xs[1], axis, table, shape[axis])]
    )
    same(forward, DENSE.window(a.full, axis, table))
    same(back, DENSE.unwindow(b.full, axis, table, shape[axis]))
