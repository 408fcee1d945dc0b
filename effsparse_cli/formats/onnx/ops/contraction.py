"""Products of matrices: every one of them is an einsum of two operands, and an einsum with a weight is one Contract
after the axes are sorted into batch, groups, contracted and new ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.stored import nonzero
from effsparse_cli.formats.onnx.table import MICROSOFT, MisfitError, NotLoweredError, Result, lowers
from effsparse_cli.formats.onnx.values import Known, Live, Value
from effsparse_cli.formats.onnx.weights import contract, is_weight
from effsparse_cli.graph import einsum as einsums
from effsparse_cli.graph.einsum import matmul_equation


def multiply(c: Call, equation: str, left: Live | Known, right: Live | Known, op: str = "matmul") -> int:
    """einsum of two values, the weights among them followed to what is stored."""
    terms, out = equation.split("->")
    a, b = terms.split(",")
    _check(c, equation, (a, left), (b, right))
    if is_weight(left) and isinstance(left, Known) and isinstance(right, Live):
        return _by_weight(c, b, right, a, left, out, op)
    if is_weight(right) and isinstance(right, Known) and isinstance(left, Live):
        return _by_weight(c, a, left, b, right, out, op)
    return einsums.multiply(c.b, a, b, out, c.node_of(left), c.node_of(right))


def _by_weight(c: Call, xs: str, x: Live, ws: str, weight: Known, out: str, op: str) -> int:
    def apply(node: int, view: einsums.MatrixView, groups: int) -> int:
        arranged = weight.moved(lambda a: a.reshape(view.split).transpose(view.order).reshape(view.shape))
        return contract(c, node, arranged, op, groups=groups)

    return einsums.contract(c.b, c.node_of(x), xs, ws, weight.shape, out, apply)


def _check(c: Call, equation: str, *operands: tuple[str, Live | Known]) -> None:
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


def matmul_values(c: Call, left: Live | Known, right: Live | Known) -> int:
    equation = matmul_equation(len(c.shape_of(left)), len(c.shape_of(right)))
    return multiply(c, equation, left, right, "linear")


@lowers("MatMul", primitive="Contract by a weight, Product otherwise", folding="value")
def matmul(c: Call) -> Result:
    return matmul_values(c, c.value(0), c.value(1))


@lowers("FusedMatMul", "TransposeMatMul", domain=MICROSOFT, primitive="Contract by a weight, Product otherwise")
def fused_matmul(c: Call) -> Result:
    ranks = len(c.shape(0)), len(c.shape(1))
    equation = matmul_equation(*ranks, bool(c.attr("transA", 0)), bool(c.attr("transB", 0)))
    terms, out = equation.split("->")
    a, b = terms.split(",")
    # With transposed batches the first matrix axis stands before them.
    a = a[-2] + a[:-2] + a[-1] if c.attr("transBatchA", 0) else a
    b = b[-2] + b[:-2] + b[-1] if c.attr("transBatchB", 0) else b
    return multiply(c, f"{a},{b}->{out}", c.value(0), c.value(1), "linear")


@lowers("Gemm", primitive="Contract by a weight, Product otherwise", folding="value")
@lowers("FusedGemm", domain=MICROSOFT, primitive="Contract by a weight, Product otherwise")
def gemm(c: Call) -> Result:
    equation = matmul_equation(2, 2, bool(c.attr("transA", 0)), bool(c.attr("transB", 0)))
    y = multiply(c, equation, c.value(0), c.value(1), "linear")
    if c.has(2) and c.attr("beta", 1.0) != 0:
        y = add_bias(c, y, c.value(2))
    return activate(c, y, c.attr("activation", ""))


def add_bias(c: Call, y: int, bias: Value | None) -> int:
    """A bias that is zero everywhere adds nothing."""
    if bias is None or (isinstance(bias, Known) and not nonzero(bias.array).any()):
        return y
    return c.b.join(y, c.node_of(bias))


def activate(c: Call, y: int, name: str) -> int:
    """An activation fused into another operator."""
    return c.b.join(y, keeps_zero=name not in ("Sigmoid", "HardSigmoid", "Softplus", "Exp")) if name else y


@lowers("Einsum", primitive="Contract by a weight, Product otherwise", folding="value")
def einsum(c: Call) -> Result:
    """Operands are multiplied one after another; a letter stays until nothing needs it any more."""
    terms, out = einsums.parse_equation(c.attr("equation"), [len(c.shape(i)) for i in range(len(c.inputs))])
    values: list[Live | Known] = []
    for i, letters in enumerate(terms):
        value, terms[i] = _without_repeats(c, c.value(i), letters)
        values.append(value)
    done, letters = values[0], terms[0]
    for i in range(1, len(terms)):
        needed = set(out).union(*terms[i + 1 :])
        result = "".join(dict.fromkeys(letter for letter in letters + terms[i] if letter in needed))
        if isinstance(done, Known) and isinstance(values[i], Known):
            raise NotLoweredError("constants among its operands are multiplied first")
        done, letters = Live(multiply(c, f"{letters},{terms[i]}->{result}", done, values[i], "einsum")), result
    return einsums.sum_to(c.b, c.node_of(done), letters, out)


def _without_repeats(c: Call, value: Live | Known, letters: str) -> tuple[Live | Known, str]:
    """A letter that stands twice in one operand takes its diagonal."""
    if len(set(letters)) == len(letters):
        return value, letters
    unique, index = einsums.diagonal_index(letters, c.shape_of(value))
    if isinstance(value, Known):
        return value.moved(lambda a: a.reshape(-1)[index]), unique
    return Live(c.b.gather(value.node, index)), unique


def linear(c: Call, x: int, weight: Known, bias: Value | None, op: str = "linear") -> int:
    """x [..., in] by a weight [in, out], as fused operators store it."""
    y = matmul_values(c, Live(x), weight)
    return add_bias(c, y, bias)


def heads(c: Call, x: int, count: int) -> int:
    """[batch, length, count*width] -> [batch, count, length, width]."""
    batch, length, width = c.b.shape(x)
    return c.b.permute(c.b.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def merge_heads(c: Call, x: int) -> int:
    batch, count, length, width = c.b.shape(x)
    return c.b.reshape(c.b.permute(x, (0, 2, 1, 3)), (batch, length, count * width))


def split_last(c: Call, x: int, sizes: Sequence[int]) -> list[int]:
    ends = np.cumsum([0, *sizes])
    return [c.b.slice(x, -1, int(ends[i]), int(ends[i + 1])) for i in range(len(sizes))]
