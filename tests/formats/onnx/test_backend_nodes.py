"""onnx's backend tests as models: all of them lower, and changing input elements that do not matter does not change the
output. Each is read twice: with all inputs live, and with all but the first stored in the file."""

from __future__ import annotations

import pkgutil
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import onnx
import pytest
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from effsparse_cli.formats.onnx.ops import OPERATORS
from effsparse_cli.graph.primitives import Primitive
from tests.formats.onnx.dependence import Inputs, confirm, count, lower
from tests.formats.onnx.probes import primitives_of, with_constants

Case = tuple[str, ModelProto, list[Any]]
Record = Callable[[str, object], None]

SUBSET = 300
WITH_STORED_TENSORS = ("Constant", "Gather")
"""As weights or lookups they are tested in test_weights.py."""
FILES = ("simple", "pytorch-converted", "pytorch-operator")
SLOW_TO_MAKE = ("averagepool", "lppool", "maxpool")
"""Modules that take long to import because they compute poolings in Python."""
POOLS = ("AveragePool", "LpPool", "MaxPool")


@cache
def cases() -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_case(case) for group in ("node", *FILES) for case in load_model_tests(kind=group)]


def quick_cases() -> list[Case]:
    """Return all cases but onnx's own poolings, which onnx computes in Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.iter_modules(node.__path__):
            if not module.ispkg and module.name not in SLOW_TO_MAKE:
                import_module(f"{node.__name__}.{module.name}")
        made = [c for c in node._NodeTestCases if c.model is not None and c.model.graph.node[0].op_type not in POOLS]
        files = [case for group in FILES for case in load_model_tests(kind=group)]
        return [_case(case) for case in made + files if not re.match("test_MaxPool.*dilation", case.name)]


def _case(case: TestCase) -> Case:
    if case.data_sets and case.model is not None:
        return case.name, case.model, list(case.data_sets[0][0])
    folder = Path(str(case.model_dir))
    files = sorted((folder / "test_data_set_0").glob("input_*.pb"))
    data = [numpy_helper.to_array(TensorProto.FromString(file.read_bytes())) for file in files]
    return case.name, onnx.load(folder / "model.onnx"), data


def variants(model: ModelProto, data: list[Any]) -> list[tuple[ModelProto, Inputs]]:
    stored = {t.name for t in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in stored]
    every = dict(zip(names, data, strict=False))
    found: list[tuple[ModelProto, Inputs]] = [(model, every)]
    if len(names) == len(data) > 1 and not stored:
        changed = with_constants(model, data, live=1)
        found.append((changed, {v.name: every[v.name] for v in changed.graph.input}))
    return found


def check(chosen: Sequence[Case], record: Record) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, model, data in chosen:
        for changed, inputs in variants(model, data):
            count(confirm(name, changed, inputs), counts)
    for what, number in counts.items():
        record(f"witness: ONNX backend tests, {what}", number)
    return counts


def test_seeded_subset(record_property: Record) -> None:
    counts = check(random.Random(0).sample(quick_cases(), SUBSET), record_property)
    assert counts["models lowered"] >= SUBSET
    assert counts["models confirmed"] > SUBSET / 2


@pytest.mark.slow
def test_table_names_the_right_primitives() -> None:
    """Over all cases of an operator. An operator that is not documented as Opaque has a case without one."""
    seen: dict[str, set[str]] = {}
    for _, model, data in cases():
        if len(model.graph.node) == 1 and model.graph.node[0].domain == "" and len(data) == len(model.graph.input):
            for changed, inputs in variants(model, data):
                primitives = primitives_of(lower(changed, inputs))
                if "Opaque" in OPERATORS["", model.graph.node[0].op_type].primitives or "Opaque" not in primitives:
                    seen.setdefault(model.graph.node[0].op_type, set()).update(primitives)
                else:
                    seen.setdefault(model.graph.node[0].op_type, set())
    known = {primitive.__name__ for primitive in get_args(Primitive)}
    for op, primitives in seen.items():
        if op in WITH_STORED_TENSORS:
            continue
        said = set(re.findall(r"\w+", OPERATORS["", op].primitives)) & known
        assert said <= primitives, f"{op} should become {said}, is {primitives}"


@pytest.mark.slow
def test_all_cases(record_property: Record) -> None:
    counts = check(cases(), record_property)
    assert counts["models lowered"] >= len(cases())
    assert counts["models confirmed"] > len(cases()) / 2
