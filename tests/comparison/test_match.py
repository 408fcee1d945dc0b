"""Layers match by name, by the end of a name, or by shape and order, and at most once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.comparison.compare import match_layers

NAMES = st.sampled_from(["fc1", "fc2", "module.fc1", "head", "model.head", "x.head", "conv"])
MODELS = st.dictionaries(NAMES, st.sampled_from([(2, 3), (3, 2), (4, 4)]))


def test_names_come_before_shapes() -> None:
    before, after = {"a": (2, 2), "b": (2, 2)}, {"b": (2, 2), "a": (2, 2)}
    assert match_layers(before, after) == {"a": "a", "b": "b"}


def test_an_ambiguous_end_does_not_match() -> None:
    assert match_layers({"head": (1, 2)}, {"x.head": (9, 9), "y.head": (8, 8)}) == {}


def test_order_decides_among_equal_shapes() -> None:
    before, after = {"a": (2, 2), "b": (3, 3), "c": (2, 2)}, {"x": (2, 2), "y": (2, 2), "z": (3, 3)}
    assert match_layers(before, after) == {"a": "x", "b": "z", "c": "y"}


@given(MODELS, MODELS)
def test_each_layer_once(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> None:
    matched = match_layers(before, after)
    assert matched.keys() <= before.keys()
    assert len(set(matched.values())) == len(matched)
    assert set(matched.values()) <= after.keys()
    assert all(matched.get(name) == name for name in before.keys() & after.keys())


@given(MODELS)
def test_a_model_matches_itself(model: dict[str, tuple[int, int]]) -> None:
    assert match_layers(model, model) == {name: name for name in model}
