"""Operations on channel maps equal the same operations on arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.maps import BoolValue, group_channels, to_array
from effsparse_cli.paths.lattice import DENSE


def drawn(random: np.random.Generator, shape: Shape, density: float) -> Bools:
    """Few channels differ, and some are empty or full."""
    kinds = random.random((3, *shape[:1], *shape[2:])) < density
    kinds[0] = False
    which = random.integers(0, 3, shape[1])
    array = np.moveaxis(kinds[which], 0, 1)
    array[:, random.random(shape[1]) < 0.2] = True
    return array


def same(found: BoolValue, expected: Bools, shape: Shape) -> None:
    np.testing.assert_array_equal(np.broadcast_to(to_array(found), shape), np.broadcast_to(expected, shape))


@st.composite
def arrays(draw: st.DrawFn, count: int = 1) -> tuple[Bools, ...]:
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    shape = draw(st.tuples(st.integers(1, 2), st.integers(1, 9), st.integers(1, 6), st.integers(1, 12)))
    return tuple(drawn(random, shape, draw(st.floats(0.05, 0.95))) for _ in range(count))


def by_channels(each: Bools) -> BoolValue:
    return group_channels(each, 1)


@given(arrays(3), st.sampled_from(["plus", "product"]))
def test_elementwise(given_: Sequence[Bools], verb: str) -> None:
    a, b, c = given_
    maps = [by_channels(each) for each in given_]
    if verb == "plus":
        same(BOOLEAN.plus(maps), a | b | c, a.shape)
    else:
        same(BOOLEAN.product("abcd,abcd->abcd", maps[0], maps[1]), a & b, a.shape)


@given(arrays(2), st.integers(0, 3))
def test_joined_and_split(given_: Sequence[Bools], axis: int) -> None:
    sizes = [each.shape[axis] for each in given_]
    whole = np.concatenate(given_, axis=axis)
    joined = BOOLEAN.concat([by_channels(each) for each in given_], axis, sizes)
    same(joined, whole, whole.shape)
    for part, expected in zip(BOOLEAN.split(by_channels(whole), axis, sizes), given_, strict=True):
        same(part, expected, expected.shape)


@given(arrays(), st.integers(0, 3), st.data())
def test_taken_and_put(given_: Sequence[Bools], axis: int, data: st.DataObject) -> None:
    (a,) = given_
    index = np.array(data.draw(st.lists(st.integers(-1, a.shape[axis] - 1), min_size=1, max_size=9)))
    shape = (*a.shape[:axis], len(index), *a.shape[axis + 1 :])
    same(BOOLEAN.take(by_channels(a), axis, index), DENSE.take(a, axis, index), shape)
    places = np.array(data.draw(st.lists(st.integers(-1, 11), min_size=a.shape[axis], max_size=a.shape[axis])))
    shape = (*a.shape[:axis], 12, *a.shape[axis + 1 :])
    same(BOOLEAN.put(by_channels(a), axis, places, 12), DENSE.put(a, axis, places, 12), shape)


@given(arrays(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 8), st.data())
def test_windows(given_: Sequence[Bools], axis: int, taps: int, out: int, data: st.DataObject) -> None:
    """Any table of taps, among them those of resizing, which read a position more than once."""
    (a,) = given_
    places = st.integers(-1, a.shape[axis] - 1)
    if data.draw(st.booleans()):
        start, stride = data.draw(st.integers(-2, 1)), data.draw(st.integers(1, 3))
        table = start + np.arange(taps)[:, None] + stride * np.arange(out)
        table = np.where((table >= 0) & (table < a.shape[axis]), table, -1)
    else:
        table = np.array(data.draw(st.lists(places, min_size=taps * out, max_size=taps * out))).reshape(taps, out)
    shape = (*a.shape[:axis], out, *a.shape[axis + 1 :])
    same(BOOLEAN.window(by_channels(a), axis, table), DENSE.window(a, axis, table), shape)
    back = drawn(np.random.default_rng(a.size), shape, 0.5)
    expected = DENSE.unwindow(back, axis, table, a.shape[axis])
    same(BOOLEAN.unwindow(by_channels(back), axis, table, a.shape[axis]), expected, a.shape)


@given(arrays(), st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_moved_and_summed(given_: Sequence[Bools], dims: Sequence[int], axes: set[int]) -> None:
    (a,) = given_
    same(BOOLEAN.permute(by_channels(a), dims), a.transpose(dims), tuple(a.shape[d] for d in dims))
    total = DENSE.total(a, sorted(axes))
    same(BOOLEAN.total(by_channels(a), sorted(axes)), total, total.shape)
    flat = (a.shape[0], a.shape[1], a.shape[2] * a.shape[3])
    same(BOOLEAN.reshape(by_channels(a), a.shape, flat), a.reshape(flat), flat)
