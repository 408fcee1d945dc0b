"""What compaction claims to be zero is zero: each operator is run, in onnxruntime and in onnx's reference
implementation, on an input with a column of zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from effsparse_cli.compaction.onnx.rules import RULES
from effsparse_cli.compaction.onnx.run import observe
from effsparse_cli.compaction.onnx.shrink import shrink, survey
from effsparse_cli.formats.onnx.ops import OPERATORS

WIDTH, ZERO = 5, 2
FLOAT, INT, BOOL, TEXT = int(TensorProto.FLOAT), int(TensorProto.INT64), int(TensorProto.BOOL), int(TensorProto.STRING)
Case = tuple[list[NodeProto], dict[str, NDArray[Any]], int]
node = helper.make_node


def f(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def i(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def of(kind: str, x: str = "h", opset: int = 20, **given: Any) -> Case:
    """Return a case of one operator. Arrays are stored inputs in order, other arguments attributes. `h` is an input of
    floats, `n` of integers, `c` of booleans, each with a column of zeros."""
    stored = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    attributes = {name: value for name, value in given.items() if name not in stored}
    return [node(kind, [*x.split(), *stored], ["r"], **attributes)], stored, opset


ONES = f(1, 1, 1, 1, 1)
EYE = np.eye(WIDTH, dtype=np.float32)
MIXED = f(-1, 0, 0, 2, 3)
SINGLE: dict[str, Sequence[dict[str, Any]]] = {
    "Abs": [{}, {"x": "n"}],
    "BitShift": [],
    "BitwiseNot": [{"x": "n"}],
    "Cast": [{"to": t} for t in (BOOL, INT, TEXT, int(TensorProto.FLOAT16), int(TensorProto.DOUBLE))],
    "Celu": [{}, {"alpha": -2.0}],
    "Clip": [
        {}, {"low": f(0.5).reshape(())}, {"low": f(-1).reshape(()), "high": f(-0.5).reshape(())},
        {"low": f(-1).reshape(()), "high": f(1).reshape(())}, {"opset": 6, "min": 0.25, "max": 6.0},
        {"opset": 6, "min": -3.0, "max": -1.0}, {"opset": 6, "min": 0.0, "max": 6.0},
    ],
    "Elu": [{}, {"alpha": 3.0}],
    "Gelu": [{}, {"approximate": "tanh"}],
    "HardSigmoid": [{}, {"beta": 0.0}, {"beta": -1.0}],
    "IsInf": [{}, {"detect_negative": 0}],
    "LeakyRelu": [{}, {"alpha": -0.5}],
    "Not": [{"x": "c"}],
    "Selu": [{}, {"gamma": 2.0}],
    "Shrink": [{}, {"bias": 1.5}, {"bias": 1.0, "lambd": -0.5}],
    "Sign": [{}, {"x": "n"}],
    "Swish": [{"opset": 24}, {"opset": 24, "alpha": 2.0}],
    "ThresholdedRelu": [{}, {"alpha": -1.0}],
}  # fmt: skip
SEVERAL: dict[str, list[Case]] = {
    "Add": [of("Add", b=MIXED), of("Add", "h h"), of("Add", b=f(0)), of("Add", b=f(1))],
    "And": [of("And", "c c"), of("And", "c", b=MIXED > 0)],
    "BitShift": [
        ([node("Cast", ["n"], ["u"], to=int(TensorProto.UINT8)), node("BitShift", ["u", "b"], ["r"], direction=d)],
         {"b": np.array([1, 2, 0, 3, 1], np.uint8)}, 20)
        for d in ("LEFT", "RIGHT")
    ],
    "BitwiseAnd": [of("BitwiseAnd", "n n"), of("BitwiseAnd", "n", b=i(1, 0, 3, 4, 7))],
    "BitwiseOr": [of("BitwiseOr", "n n"), of("BitwiseOr", "n", b=i(1, 0, 3, 0, 0))],
    "BitwiseXor": [of("BitwiseXor", "n n"), of("BitwiseXor", "n", b=i(1, 0, 0, 0, 7))],
    "CastLike": [of("CastLike", t=f(1)), of("CastLike", t=np.array(["a"], object))],
    "Div": [of("Div", "h h"), of("Div", b=ONES), of("Div", b=MIXED)],
    "Equal": [of("Equal", "h h"), of("Equal", b=MIXED), of("Equal", b=ONES)],
    "Greater": [of("Greater", "h h"), of("Greater", b=MIXED), of("Greater", b=-ONES)],
    "GreaterOrEqual": [of("GreaterOrEqual", "h h"), of("GreaterOrEqual", b=ONES)],
    "Less": [of("Less", "h h"), of("Less", b=ONES), of("Less", b=-ONES)],
    "LessOrEqual": [of("LessOrEqual", "h h"), of("LessOrEqual", b=-ONES)],
    "Max": [of("Max", b=MIXED), of("Max", b=-ONES), of("Max", b=ONES), of("Max", "h h")],
    "Mean": [of("Mean", "h h"), of("Mean", b=MIXED), of("Mean", b=ONES)],
    "Min": [of("Min", b=MIXED), of("Min", b=-ONES), of("Min", b=ONES), of("Min", "h h")],
    "Mod": [of("Mod", "n", b=i(3, 5, 7, 2, 4)), of("Mod", fmod=1, b=ONES), of("Mod", fmod=1, b=MIXED)],
    "Mul": [of("Mul", b=b) for b in (MIXED, f(1, 0, np.inf, 1, 1), f(1, 1, np.nan, 1, 1))] + [of("Mul", "h h")],
    "Or": [of("Or", "c c"), of("Or", "c", b=MIXED > 0), of("Or", "c", b=ONES > 0)],
    "PRelu": [of("PRelu", b=MIXED), of("PRelu", b=f(0.1))],
    "Pow": [of("Pow", b=f(2)), of("Pow", b=f(0)), of("Pow", b=f(-1)), of("Pow", b=MIXED), of("Pow", "h h"),
            ([node("Pow", ["b", "h"], ["r"])], {"b": f(0)}, 20), ([node("Pow", ["b", "h"], ["r"])], {"b": f(2)}, 20)],
    "Sub": [of("Sub", b=MIXED), of("Sub", "h h"), ([node("Sub", ["b", "h"], ["r"])], {"b": ONES}, 20)],
    "Sum": [of("Sum", "h h h"), of("Sum", "h h", b=ONES)],
    "Where": [of("Where", "c h h"), of("Where", "c h", b=MIXED), of("Where", "c h", b=ONES),
              ([node("Where", ["b", "h", "o"], ["r"])], {"b": MIXED > 0, "o": ONES}, 20)],
    "Xor": [of("Xor", "c c"), of("Xor", "c", b=MIXED > 0)],
}  # fmt: skip
OTHERS: dict[str, list[Case]] = {
    **{
        kind: [of(kind, axes=i(0)), of(kind, keepdims=0, axes=i(-1)), of(kind, opset=11, axes=[0])]
        for kind in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
                     "ReduceProd", "ReduceSumSquare")
    },
    "ReduceSum": [of("ReduceSum", axes=i(0)), of("ReduceSum", noop_with_empty_axes=1), of("ReduceSum", opset=9)],
    "ArgMax": [of("ArgMax", axis=0), of("ArgMax", axis=1)],
    "ArgMin": [of("ArgMin", axis=0)],
    "BatchNormalization": [
        of("BatchNormalization", s=ONES, b=shift, m=mean, v=ONES) for shift in (MIXED, ONES) for mean in (MIXED, ONES)
    ],
    "LayerNormalization": [of("LayerNormalization", s=ONES, b=MIXED), of("LayerNormalization", s=ONES, epsilon=0.1)],
    "LpNormalization": [of("LpNormalization", axis=0), of("LpNormalization", axis=-1, p=1)],
    "Softmax": [of("Softmax"), of("Softmax", axis=0), of("Softmax", opset=11)],
    "LogSoftmax": [of("LogSoftmax"), of("LogSoftmax", axis=0)],
    "Hardmax": [of("Hardmax"), of("Hardmax", axis=0)],
    "CumSum": [of("CumSum", a=i(0).reshape(())), of("CumSum", a=i(1).reshape(()), exclusive=1)],
    "Dropout": [of("Dropout")],
    "Pad": [of("Pad", p=i(1, 0, 1, 0), v=f(3).reshape(())), of("Pad", p=i(0, 1, 0, 0)), of("Pad", p=i(1, 0, 0, 0)),
            of("Pad", p=i(0, 1, 0, 1), mode="reflect")],
    "Concat": [of("Concat", "h h", axis=1), of("Concat", "h h", axis=0), of("Concat", axis=0, b=ONES[None])],
    "Expand": [of("Expand", s=i(3, 4, 5))],
    "Tile": [of("Tile", reps=i(2, 1)), of("Tile", reps=i(1, 2))],
    "Gather": [of("Gather", axis=1, at=i(2, 0, -3)), of("Gather", axis=0, at=i(1, 0))],
    "Slice": [of("Slice", start=i(1), end=i(4), axes=i(1)), of("Slice", start=i(-1), end=i(-9), axes=i(1), by=i(-1))],
    "Split": [([node("Split", ["h"], ["r", "s"], axis=1, num_outputs=2)], {}, 20)],
    "Transpose": [of("Transpose")],
    "Reshape": [of("Reshape", s=i(2, 2, 5)), of("Reshape", s=i(20)), of("Reshape", s=i(5, 4))],
    "Flatten": [of("Flatten")],
    "Squeeze": [([node("Unsqueeze", ["h", "a"], ["q"]), node("Squeeze", ["q", "a"], ["r"])], {"a": i(0)}, 20)],
    "Unsqueeze": [of("Unsqueeze", a=i(1))],
    "MatMul": [of("MatMul", w=EYE), ([node("MatMul", ["w", "h"], ["r"])], {"w": f(1, 1, 1, 1)}, 20)],
    "Gemm": [of("Gemm", w=EYE, b=MIXED), of("Gemm", w=EYE, b=f(1))],
    "Einsum": [of("Einsum", w=EYE, equation="ab,bc->ac")],
    "QuantizeLinear": [of("QuantizeLinear", s=f(0.5).reshape(()), z=np.array(z, np.uint8)) for z in (0, 3)],
    "DequantizeLinear": [
        ([node("QuantizeLinear", ["h", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "y"], ["r"])],
         {"s": f(0.5).reshape(()), "z": np.array(3, np.uint8), "y": np.array(5, np.uint8)}, 20),
    ],
    "Shape": [of("Shape")],
    "ConstantOfShape": [([node("Shape", ["h"], ["s"]), node("ConstantOfShape", ["s"], ["r"])], {}, 20)],
    "Range": [([node("ReduceMax", ["h"], ["m"], keepdims=0), node("Abs", ["m"], ["p"]),
                node("Range", ["z", "p", "o"], ["r"])], {"z": f(0).reshape(()), "o": f(1).reshape(())}, 20)],
}  # fmt: skip


def on_image(kind: str, opset: int = 20, stored: dict[str, NDArray[Any]] | None = None, **attributes: Any) -> Case:
    """Return a case with the columns as channels."""
    stored = stored or {}
    turned = [node("Transpose", ["h"], ["turned"]), node("Reshape", ["turned", "image"], ["p"])]
    return [*turned, node(kind, ["p", *stored], ["r"], **attributes)], {"image": i(1, 5, 2, 2), **stored}, opset


DEPTHWISE = np.ones((5, 1, 1, 1), np.float32)
DOUBLED = f(1, 1, 2, 2)
IMAGES: dict[str, list[Case]] = {
    "MaxPool": [on_image("MaxPool", kernel_shape=[2, 2], pads=[1, 1, 1, 1])],
    "AveragePool": [on_image("AveragePool", kernel_shape=[2, 2], pads=[1] * 4, count_include_pad=1)],
    "LpPool": [on_image("LpPool", kernel_shape=[2, 2])],
    "GlobalAveragePool": [on_image("GlobalAveragePool")],
    "GlobalMaxPool": [on_image("GlobalMaxPool")],
    "GlobalLpPool": [on_image("GlobalLpPool")],
    "InstanceNormalization": [
        on_image("InstanceNormalization", stored={"s": ONES, "b": bias}) for bias in (MIXED, 0 * ONES, ONES)
    ],
    "Resize": [
        on_image("Resize", stored={"roi": f(), "scales": DOUBLED}, mode=mode) for mode in ("linear", "cubic", "nearest")
    ],
    "Upsample": [on_image("Upsample", opset=9, stored={"scales": DOUBLED})],
    "Conv": [
        on_image("Conv", stored={"w": np.ones((3, 5, 1, 1), np.float32)}),
        on_image("Conv", stored={"w": DEPTHWISE, "b": MIXED}, group=5),
        on_image("Conv", stored={"w": DEPTHWISE, "b": ONES}, group=5),
    ],
    "ConvTranspose": [on_image("ConvTranspose", stored={"w": DEPTHWISE}, group=5)],
}
NOT_RUN = {"RMSNormalization", "SimplifiedLayerNormalization"}
"""Claim nothing, and onnxruntime has them only in later versions or under another domain."""
ELEMENTWISE = {name for (domain, name), op in OPERATORS.items() if op.positions == "elementwise"}
PLAIN = [kind for kind in sorted(ELEMENTWISE) if kind not in SINGLE and kind not in SEVERAL]
CASES = [
    *((kind, of(kind)) for kind in PLAIN),
    *((kind, of(kind, **given)) for kind, some in SINGLE.items() for given in some),
    *((kind, case) for table in (SEVERAL, OTHERS, IMAGES) for kind, some in table.items() for case in some),
]


def model_of(case: Case) -> ModelProto:
    """Return a model in which h is [4, WIDTH], with a column that is always zero."""
    nodes, stored, opset = case
    weight = np.random.default_rng(0).standard_normal((3, WIDTH)).astype(np.float32)
    weight[:, ZERO] = 0
    before = [
        node("MatMul", ["x", "weight"], ["h"]),
        node("Ceil", ["h"], ["whole"]),
        node("Cast", ["whole"], ["n"], to=INT),
        node("Cast", ["h"], ["c"], to=BOOL),
    ]
    graph = helper.make_graph(
        [*before, *nodes],
        "one",
        [helper.make_tensor_value_info("x", FLOAT, [4, 3])],
        [helper.make_value_info("r", helper.make_tensor_type_proto(0, None))],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in {"weight": weight, **stored}.items()],
    )
    graph.output[0].type.Clear()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def claimed_zero(model: ModelProto, seen: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether the survey claims zeros, and whether all of its claims are right."""
    found = survey(model, {"x": (4, 3)}, seen)
    value, array = found.values["r"], np.asarray(seen["r"])
    right = True
    for axis in range(array.ndim):
        chosen = array.compress(value.zero(axis), axis)
        right &= array.dtype.kind not in "OSU" and not np.any(chosen != 0) if chosen.size else True
    return any(value.zero(axis).any() for axis in range(array.ndim)), right


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(CASES)])
def test_claimed_zeros_are_zero(kind: str, case: Case) -> None:
    model = model_of(case)
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    seen = {"x": x, **observe(model, {"x": x})}
    said, right = claimed_zero(model, seen)
    assert right
    if kind in ELEMENTWISE:
        # Random numbers elsewhere are not zero, so a column of zeros is due to the operator.
        column = np.asarray(seen["r"]).reshape(-1, WIDTH)[:, ZERO]
        assert said or column.dtype.kind in "OSU" or column.any() or kind == "Mean"


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(CASES)])
def test_the_reference_implementation_agrees(kind: str, case: Case) -> None:
    model = model_of(case)
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    names = [name for each in model.graph.node for name in each.output]
    ours = observe(model, {"x": x})
    try:
        with np.errstate(all="ignore"):
            theirs = dict(zip(names, ReferenceEvaluator(model).run(names, {"x": x}), strict=True))
    except (RuntimeError, NotImplementedError, AttributeError, IndexError):
        pytest.skip("the reference does not run it")
    zero = [np.asarray(found["r"] == 0) for found in (ours, theirs)]
    np.testing.assert_array_equal(zero[0], zero[1])


def test_every_operator_is_run() -> None:
    default = {name for (domain, name), op in OPERATORS.items() if op.positions is not None and not domain}
    assert {kind for kind, _ in CASES} | NOT_RUN == default


def test_every_rule_is_used() -> None:
    assert {op.positions for op in OPERATORS.values() if op.positions is not None} == set(RULES)


def test_acos_of_zero_is_not_zero() -> None:
    """A column of zeros becomes one of pi / 2, so what reads it is needed."""
    nodes = [node("Acos", ["h"], ["a"]), node("MatMul", ["a", "read"], ["r"])]
    model = model_of((nodes, {"read": np.ones((WIDTH, 2), np.float32)}, 20))
    x = np.full((4, 3), 0.1, np.float32)
    smaller = shrink(model, {"x": x})
    assert smaller.kept.count(smaller.survey.values["read"].axes[0]) == WIDTH
