"""Each tensor is read once, in order, and the memory for its bits is used again only when nobody looks at it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Shape, View, Weight
from effsparse_cli.graph.stored_numbers import StoredNumbers
from effsparse_cli.kernel.bits import unpack
from effsparse_cli.paths.packing import Reading, lay_out, read_all


def layer(name: str, kept: Bools, place: int, told: Callable[[str], None]) -> Layer:
    def read() -> Bools:
        told(f"{name} read")
        return kept

    def done(start: int, end: int) -> None:
        told(f"{name} {start - kept.ctypes.data} to {end - kept.ctypes.data}")

    numbers = StoredNumbers(read, kept.shape, position=place, on_read=done)
    return Layer(name, "linear", kept.shape, numbers)


def drawn(*shape: int) -> Bools:
    return np.random.default_rng(sum(shape)).random(shape) < 0.5


def test_what_is_used_twice_is_read_once() -> None:
    told: list[str] = []
    a, b = drawn(5, 70), drawn(3, 4)
    layers = {"a": layer("a", a, 2, told.append), "b": layer("b", b, 1, told.append)}
    plain, turned, flat = Weight("a", View()), Weight("a", View(strides=(1, 70))), Weight("b", View())
    shapes: dict[Weight, Shape] = {plain: (5, 70), turned: (70, 5), flat: (3, 4)}
    reading = read_all(shapes, layers)
    assert sorted(told) == ["a 0 to 350", "a read", "b 0 to 12", "b read"]
    assert told.index("b read") < told.index("a read")  # as the file has them
    for weight, expected in ((plain, a), (turned, a.T), (flat, b)):
        kept = reading.kept(weight)
        np.testing.assert_array_equal(unpack(kept.words, expected.shape[1]), expected)
        assert kept.number == expected.sum()
        assert kept.empty == (~expected.any(axis=1)).sum()


def test_a_tensor_is_told_of_its_own_memory() -> None:
    """Of what was read, or of all if that was copied."""
    a = drawn(5, 70)
    for strides, shape, expected, span in (
        ((1, 70), (70, 3), a[1:4].T, "0 to 350"),
        ((70, 1), (3, 70), a[1:4], "70 to 280"),
    ):
        told: list[str] = []
        some = Weight("a", View(offset=70, strides=strides))
        reading = read_all({some: shape}, {"a": layer("a", a, 1, told.append)})
        np.testing.assert_array_equal(unpack(reading.kept(some).words, shape[1]), expected)
        assert told == ["a read", f"a {span}"]


def test_memory_is_used_again_when_it_is_free() -> None:
    layers = {"a": layer("a", drawn(5, 70), 0, lambda _: None)}
    weight = Weight("a", View())
    sheets = lay_out({weight: (5, 70)}, layers)

    def read() -> Reading:
        reading = Reading(sheets, layers)
        reading.read()
        return reading

    first = read()
    rows, place = first.rows(weight), first.words.ctypes.data
    del first
    gc.collect()
    before = rows.copy()
    second = read()
    assert second.words.ctypes.data != place  # somebody still looks at the rows of the first
    np.testing.assert_array_equal(rows, before)
    kept = second.words[:1]
    del second
    assert read().words is not kept.base
    del kept
    place = read().words.ctypes.data
    assert [read().words.ctypes.data for _ in range(3)] == [place] * 3
