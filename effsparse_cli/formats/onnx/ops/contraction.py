"""Matrix products. Each is an einsum of two operands; an einsum by a weight becomes one Contract."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value
from effsparse_cli.formats.onnx.lowering.weights import contract, is_weight
from effsparse_cli.formats.onnx.operators import (
    MICROSOFT,
    Contraction,
    Extent,
    MisfitError,
    NotLoweredError,
    Result,
    operator,
)
from effsparse_cli.formats.onnx.tensors.stored import nonzero
from effsparse_cli.graph import contraction
from effsparse_cli.graph.equations import diagonal_index, letter_sizes, matmul_equation, parse_equation, split_equation

BY_WEIGHT = "Contract by a weight, Product otherwise"


def multiply(
    c: OpCall, equation: str, left: LiveValue | ConstantValue, right: LiveValue | ConstantValue, op: str = "linear"
) -> int:
    """Multiply two values by an equation. Weights are followed to their stored tensors."""
    a, b, out = split_equation(equation)
    _check(c, equation, (a, left), (b, right))
    if is_weight(left) and isinstance(left, ConstantValue) and isinstance(right, LiveValue):
        return _by_weight(c, b, right, a, left, out, op)
    if is_weight(right) and isinstance(right, ConstantValue) and isinstance(left, LiveValue):
        return _by_weight(c, a, left, b, right, out, op)
    return contraction.multiply(c.b, c.node_of(left), c.node_of(right), left=a, right=b, out=out)


def _by_weight(c: OpCall, xs: str, x: LiveValue, ws: str, weight: ConstantValue, out: str, op: str) -> int:
    def apply(node: int, view: contraction.MatrixView, groups: int) -> int:
        arranged = weight.moved(lambda a: a.reshape(view.split).transpose(view.order).reshape(view.shape))
        return contract(c, node, arranged, op, groups=groups)

    return contraction.contract(
        c.b, c.node_of(x), letters=xs, weight_letters=ws, weight_shape=weight.shape, out=out, apply=apply
    )


def _check(c: OpCall, equation: str, *operands: tuple[str, LiveValue | ConstantValue]) -> None:
    sizes: dict[str, int] = {}
    for letters, value in operands:
        shape = c.shape_of(value)
        if len(letters) != len(shape):
            raise MisfitError(f"{equation} does not fit an operand of shape {list(shape)}")
        for letter, n in zip(letters, shape, strict=True):
            if 1 not in (n, sizes.get(letter, 1)) and n != sizes[letter]:
                raise MisfitError(
                    f"operands of shapes {[list(c.shape_of(v)) for _, v in operands]} do not fit together"
                )
            sizes[letter] = max(n, sizes.get(letter, n))


def matmul_values(c: OpCall, left: LiveValue | ConstantValue, right: LiveValue | ConstantValue) -> int:
    equation = matmul_equation(len(c.shape_of(left)), len(c.shape_of(right)))
    return multiply(c, equation, left, right)


def matmul_extent(c: OpCall) -> Extent:
    a, b = c.shape(0), c.shape(1)
    flips = (c.attr("transA", 0), c.attr("transB", 0)) if c.node.op_type == "Gemm" else (0, 0)
    rows = [] if len(a) == 1 else [a[-1 if flips[0] else -2]]
    columns = [] if len(b) == 1 else [b[-2 if flips[1] else -1]]
    return [*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns]


def matmul_cost(c: OpCall) -> int:
    return math.prod(c.result_extent()) * c.shape(0)[0 if c.attr("transA", 0) else -1]


product_of_matrices = partial(
    operator, primitives=BY_WEIGHT, constants="computed", extent=matmul_extent, multiplications=matmul_cost
)


@product_of_matrices("MatMul", contraction=Contraction(bias=None, channel_axis=-1, weight_rank=2), positions="matmul")
def matmul(c: OpCall) -> Result:
    return matmul_values(c, c.value(0), c.value(1))


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT, primitives=BY_WEIGHT)
def fused_matmul(c: OpCall) -> Result:
    ranks = len(c.shape(0)), len(c.shape(1))
    equation = matmul_equation(*ranks, bool(c.attr("transA", 0)), bool(c.attr("transB", 0)))
    a, b, out = split_equation(equation)
    # With transposed batches, the first matrix axis comes before them.
    a = a[-2] + a[:-2] + a[-1] if c.attr("transBatchA", 0) else a
    b = b[-2] + b[:-2] + b[-1] if c.attr("transBatchB", 0) else b
    return multiply(c, f"{a},{b}->{out}", c.value(0), c.value(1))


@product_of_matrices(
    "Gemm", contraction=Contraction(attributes={"transA": 0, "alpha": 1.0, "beta": 1.0}), positions="gemm"
)
@operator("FusedGemm", domain=MICROSOFT, primitives=BY_WEIGHT)
def gemm(c: OpCall) -> Result:
    equation = matmul_equation(2, 2, bool(c.attr("transA", 0)), bool(c.attr("transB", 0)))
    y = multiply(c, equation, c.value(0), c.value(1))
    if c.has(2) and c.attr("beta", 1.0) != 0:
        y = add_bias(c, y, c.value(2))
    return activate(c, y, c.attr("activation", ""))


def add_bias(c: OpCall, y: int, bias: Value | None) -> int:
    """Add a bias, unless it is zero everywhere."""
    if bias is None or (isinstance(bias, ConstantValue) and not nonzero(bias.array).any()):
        return y
    return c.b.join(y, c.node_of(bias))


def activate(c: OpCall, y: int, name: str) -> int:
    """Apply an activation that is fused into another operator."""
    return c.b.join(y, keeps_zero=name not in ("Sigmoid", "HardSigmoid", "Softplus", "Exp")) if name else y


def _letter_sizes(c: OpCall) -> dict[str, int]:
    return letter_sizes(c.attr("equation"), [c.shape(i) for i in range(len(c.inputs))])


def _einsum_extent(c: OpCall) -> Extent:
    left, arrow, out = c.attr("equation").replace(" ", "").partition("->")
    sizes = _letter_sizes(c)
    kept = [letter for letter in sizes if letter.startswith(".") or left.count(letter) == 1]
    return [sizes[letter] for letter in (out.replace("...", "") if arrow else kept)]


@operator(
    "Einsum", primitives=BY_WEIGHT, constants="computed", positions="einsum",
    extent=_einsum_extent, multiplications=lambda c: math.prod(_letter_sizes(c).values()),
)  # fmt: skip
def einsum(c: OpCall) -> Result:
    """Multiply the operands one after another. A letter stays until nothing needs it any more."""
    terms, out = parse_equation(c.attr("equation"), [len(c.shape(i)) for i in range(len(c.inputs))])
    values: list[LiveValue | ConstantValue] = []
    for i, letters in enumerate(terms):
        value, terms[i] = _without_repeats(c, c.value(i), letters)
        values.append(value)
    done, letters = values[0], terms[0]
    for i in range(1, len(terms)):
        needed = set(out).union(*terms[i + 1 :])
        result = "".join(dict.fromkeys(letter for letter in letters + terms[i] if letter in needed))
        if isinstance(done, ConstantValue) and isinstance(values[i], ConstantValue):
            raise NotLoweredError("constants among its operands are multiplied first")
        done, letters = LiveValue(multiply(c, f"{letters},{terms[i]}->{result}", done, values[i], "einsum")), result
    return contraction.sum_to(c.b, c.node_of(done), letters, out)


def _without_repeats(
    c: OpCall, value: LiveValue | ConstantValue, letters: str
) -> tuple[LiveValue | ConstantValue, str]:
    """Take the diagonal of an operand that has a letter twice."""
    if len(set(letters)) == len(letters):
        return value, letters
    unique, index = diagonal_index(letters, c.shape_of(value))
    if isinstance(value, ConstantValue):
        return value.moved(lambda a: a.reshape(-1)[index]), unique
    return LiveValue(c.b.gather(value.node, index)), unique


def heads(c: OpCall, x: int, count: int) -> int:
    """[batch, length, count*width] -> [batch, count, length, width]."""
    batch, length, width = c.b.shape(x)
    return c.b.permute(c.b.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def merge_heads(c: OpCall, x: int) -> int:
    batch, count, length, width = c.b.shape(x)
    return c.b.reshape(c.b.permute(x, (0, 2, 1, 3)), (batch, length, count * width))


def split_last(c: OpCall, x: int, sizes: Sequence[int]) -> list[int]:
    ends = np.cumsum([0, *sizes])
    return [c.b.slice(x, -1, int(ends[i]), int(ends[i + 1])) for i in range(len(sizes))]
