"""The claims of lowering about zero agree with onnxruntime, for every operator."""

from __future__ import annotations

import random
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from effsparse_cli.formats.onnx.ops import OPERATORS
from effsparse_cli.formats.onnx.ops.elementwise import unary
from tests.formats.onnx import test_microsoft
from tests.formats.onnx.dependence import RANDOM, Inputs
from tests.formats.onnx.models import graph, model
from tests.formats.onnx.test_backend_nodes import cases, quick_cases, variants
from tests.formats.onnx.zeros import check_zeros

Record = Callable[[str, object], None]
X = np.asarray([[0.3, -0.7, 2.5, -1.5]], np.float32)
IMAGE = np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32)

UNARY = [
    op.name for op in OPERATORS.values()
    if op.lower is unary and not op.domain and op.name not in ("BitCast", "BitwiseNot", "Not")
]  # fmt: skip

# Attributes that matter for zero, beyond onnx's own cases.
MORE: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in UNARY),
    ("Shrink", {}), ("Shrink", {"lambd": -1.0, "bias": 2.0}), ("Shrink", {"lambd": -1.0}), ("Shrink", {"bias": 1.0}),
    ("HardSigmoid", {}), ("HardSigmoid", {"beta": 0.0}), ("HardSigmoid", {"beta": -1.0, "alpha": 2.0}),
    ("ThresholdedRelu", {"alpha": -1.0}), ("Elu", {"alpha": -2.0}), ("LeakyRelu", {"alpha": 3.0}),
    ("Selu", {"alpha": 3.0, "gamma": -1.0}), ("Celu", {"alpha": 3.0}), ("Gelu", {"approximate": "tanh"}),
    ("Swish", {"alpha": -3.0}), ("MeanVarianceNormalization", {"axes": [1]}), ("LpNormalization", {"p": 1}),
    *(("Cast", {"to": to}) for to in (TensorProto.INT32, TensorProto.BOOL, TensorProto.FLOAT16, TensorProto.UINT8)),
]  # fmt: skip
POOLS: list[tuple[str, dict[str, Any]]] = [
    ("MaxPool", {"kernel_shape": [2, 2]}), ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("LpPool", {"kernel_shape": [2, 2], "p": 2}), ("MaxPool", {"kernel_shape": [3, 3], "dilations": [2, 2]}),
]  # fmt: skip
BOUNDS = [(-1, 1), (0, 6), (0.5, 1), (-2, -1), (0, 0), (1, 0)]
POWERS = [0, 1, 2, 0.5, -1, -2]


@cache
def by_operator() -> dict[str, list[tuple[str, ModelProto, list[Any]]]]:
    found = defaultdict(list)
    for case in quick_cases():
        nodes = case[1].graph.node
        if len(nodes) == 1 and nodes[0].domain == "" and nodes[0].op_type not in RANDOM:
            found[nodes[0].op_type].append(case)
    return found


def check(name: str, content: ModelProto, inputs: Inputs) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_zeros(name, content, inputs)


@pytest.mark.parametrize("op", sorted(name for domain, name in OPERATORS if not domain))
def test_onnx_backend_cases(op: str, record_property: Record) -> None:
    every = by_operator().get(op, [])
    chosen = random.Random(op).sample(every, min(len(every), 4))
    confirmed = sum(check(name, *variant) for name, made, data in chosen for variant in variants(made, data))
    record_property("witness: ONNX operators, elements that are zero as the table says", confirmed)


def single(op: str, inputs: dict[str, Any], attributes: dict[str, Any], **stored: Any) -> ModelProto:
    names = [*inputs, *stored]
    arrays = {name: np.asarray(value, np.float32) for name, value in stored.items()}
    shapes = {name: array.shape for name, array in inputs.items()}
    made = model(graph([helper.make_node(op, names, ["y"], **attributes)], shapes, ["y"], arrays))
    made.graph.output[0].type.Clear()
    made.opset_import[0].version = 24 if op == "Swish" else 22
    return made


@pytest.mark.parametrize(("op", "attributes"), MORE)
def test_attributes_that_matter(op: str, attributes: dict[str, Any]) -> None:
    confirmed = check(op, single(op, {"x": X}, attributes), {"x": X})
    if op in UNARY and OPERATORS["", op].keeps_zero:
        assert confirmed


@pytest.mark.parametrize(("op", "attributes"), POOLS)
def test_pools(op: str, attributes: dict[str, Any]) -> None:
    assert check(op, single(op, {"x": IMAGE}, attributes), {"x": IMAGE})


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_bounds_of_clip(low: float, high: float) -> None:
    check("Clip", single("Clip", {"x": X}, {}, low=low, high=high), {"x": X})


@pytest.mark.parametrize("power", POWERS)
def test_powers(power: float) -> None:
    check("Pow", single("Pow", {"x": X}, {}, power=power), {"x": X})


@pytest.mark.parametrize("case", test_microsoft.CASES, ids=lambda case: str(case.op))
def test_onnxruntime_operators(case: test_microsoft.Case) -> None:
    if case.can_run:
        check(case.op, test_microsoft.content(case), {name: case.inputs[name] for name in case.live})


@pytest.mark.slow
def test_all_onnx_backend_cases() -> None:
    confirmed = 0
    for name, made, data in cases():
        if not any(node.op_type in RANDOM for node in made.graph.node):
            confirmed += sum(check(name, *variant) for variant in variants(made, data))
    assert confirmed > 1_000_000
