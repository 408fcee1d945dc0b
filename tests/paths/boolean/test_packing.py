"""Each tensor is read once, in the order of its file, and released."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Shape, View, Weight
from effsparse_cli.graph.stored_numbers import FIRST_NONFINITE, FiniteCheck, StoredNumbers
from effsparse_cli.kernel.bits import unpack
from effsparse_cli.paths.boolean import packing
from effsparse_cli.paths.boolean.packing import PackedWeights


def layer(name: str, kept: Bools, place: int, events: Callable[[str], None]) -> Layer:
    def read() -> Bools:
        events(f"{name} read")
        return kept

    def done(start: int, end: int) -> None:
        events(f"{name} {start - kept.ctypes.data} to {end - kept.ctypes.data}")

    numbers = StoredNumbers(read, kept.shape, position=place, on_read=done)
    return Layer(name, "linear", kept.shape, numbers)


def drawn(*shape: int) -> Bools:
    return np.random.default_rng(sum(shape)).random(shape) < 0.5


def test_tensor_with_two_uses_is_read_once() -> None:
    events: list[str] = []
    a, b = drawn(5, 70), drawn(3, 4)
    layers = {"a": layer("a", a, 2, events.append), "b": layer("b", b, 1, events.append)}
    whole, turned, flat = Weight("a", View()), Weight("a", View(strides=(1, 70))), Weight("b", View())
    shapes: dict[Weight, Shape] = {whole: (5, 70), turned: (70, 5), flat: (3, 4)}
    packed = PackedWeights(shapes, layers)
    assert sorted(events) == ["a 0 to 350", "a read", "b 0 to 12", "b read"]
    assert events.index("b read") < events.index("a read")  # as the file has them
    for weight, expected in ((whole, a), (turned, a.T), (flat, b)):
        np.testing.assert_array_equal(unpack(packed.rows(weight), expected.shape[1]), expected)
        assert packed.is_transposed(weight) == (weight is turned)
        stored = packed.stored(weight)
        as_stored = expected.T if weight is turned else expected
        assert (stored.kept, stored.empty_rows) == (expected.sum(), (~as_stored.any(axis=1)).sum())


def test_read_memory_is_reported() -> None:
    """The part that was read, or the whole tensor if it was copied."""
    a = drawn(5, 70)
    for strides, shape, expected, span in (
        ((1, 70), (70, 3), a[1:4].T, "0 to 350"),
        ((70, 1), (3, 70), a[1:4], "70 to 280"),
    ):
        events: list[str] = []
        some = Weight("a", View(offset=70, strides=strides))
        packed = PackedWeights({some: shape}, {"a": layer("a", a, 1, events.append)})
        np.testing.assert_array_equal(unpack(packed.rows(some), shape[1]), expected)
        assert events == ["a read", f"a {span}"]


def test_threads_share_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is released once it was read."""
    monkeypatch.setattr(packing, "LARGE", 1)
    monkeypatch.setattr(packing, "MANY", 1)
    monkeypatch.setattr(packing, "PIECE", 140)
    monkeypatch.setattr(packing, "_processors", lambda: 4)
    events: list[str] = []
    arrays = {name: drawn(5 + i, 70) for i, name in enumerate("abcdef")}
    layers = {name: layer(name, array, 0, events.append) for name, array in arrays.items()}
    weights = {Weight(name, View()): array for name, array in arrays.items()}
    packed = PackedWeights({weight: array.shape for weight, array in weights.items()}, layers)
    for weight, expected in weights.items():
        kept = packed.stored(weight)
        np.testing.assert_array_equal(unpack(kept.words, 70), expected)
        assert (kept.kept, kept.empty_rows) == (expected.sum(), (~expected.any(axis=1)).sum())
    assert {"a 0 to 140", "a 140 to 280", "a 280 to 350"} < set(events)


@pytest.mark.parametrize("large", [1, 1 << 19])
@pytest.mark.parametrize("fails", ["read", "done"])
def test_an_error_while_reading_is_raised(fails: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "LARGE", large)
    monkeypatch.setattr(packing, "MANY", 1)

    def fail(event: str) -> None:
        if event.startswith("c") and event.endswith("read") == (fails == "read"):
            raise OSError("gone")

    layers = {name: layer(name, drawn(5, 70), 0, fail) for name in "abcdef"}
    with pytest.raises(OSError, match="gone"):
        PackedWeights({Weight(name, View()): (5, 70) for name in layers}, layers)


def nonfinite(*views: tuple[View, Shape], dtype: str, value: float) -> bool | None:
    """Return what packing some views of a tensor with one odd value finds; None if unknown."""
    looked: list[bool] = []

    def look() -> bool:
        looked.append(True)
        return True

    numbers = np.ones((6, 70), dtype)
    numbers[4, 69] = value
    check = FiniteCheck(look, FIRST_NONFINITE[dtype])
    tensor = Layer("a", "linear", (6, 70), StoredNumbers(lambda: numbers, (6, 70), finite=check))
    PackedWeights({Weight("a", view): shape for view, shape in views}, {"a": tensor})
    finite = check()
    return None if looked else not finite


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("value", "expected"), [(np.nan, True), (-np.inf, True), (-3e38, False), (0.0, False)])
def test_packing_finds_nonfinite_values(dtype: str, value: float, expected: bool) -> None:
    whole, transposed = (View(), (6, 70)), (View(strides=(1, 70)), (70, 6))
    parts = [(View(offset=140 * i, strides=(70, 1)), (2, 70)) for i in range(3)]
    assert nonfinite(whole, dtype=dtype, value=value) is expected
    assert nonfinite(transposed, dtype=dtype, value=value) is expected
    assert nonfinite(*parts, dtype=dtype, value=value) is expected
    assert nonfinite(*parts[:2], dtype=dtype, value=value) is None


def test_only_the_calling_thread_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks may be computed from constants of the model by code that is not safe for threads."""
    monkeypatch.setattr(packing, "LARGE", 100)
    monkeypatch.setattr(packing, "MANY", 1)
    monkeypatch.setattr(packing, "PIECE", 140)
    monkeypatch.setattr(packing, "_processors", lambda: 4)
    readers: set[int] = set()

    def note(event: str) -> None:
        if event.endswith("read"):
            readers.add(threading.get_ident())

    layers = {str(i): layer(str(i), drawn(1 + i % 20, 70), 0, note) for i in range(60)}
    PackedWeights({Weight(name, View()): found.shape for name, found in layers.items()}, layers)
    assert readers == {threading.get_ident()}
