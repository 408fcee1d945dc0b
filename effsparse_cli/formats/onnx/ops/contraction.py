"""Products of matrices: every one of them is an einsum of two operands, and an einsum with a weight is one Contract
after the axes are sorted into batch, groups, contracted and new ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.stored import nonzero
from effsparse_cli.formats.onnx.table import MICROSOFT, MisfitError, NotLoweredError, Result, lowers
from effsparse_cli.formats.onnx.values import Known, Live, Value
from effsparse_cli.formats.onnx.weights import contract, is_weight
from effsparse_cli.graph.builder import LETTERS


def multiply(c: Call, equation: str, left: Live | Known, right: Live | Known, op: str = "matmul") -> int:
    """einsum of two values, the weights among them followed to what is stored."""
    terms, out = equation.split("->")
    a, b = terms.split(",")
    _check(c, equation, (a, left), (b, right))
    if is_weight(left) and isinstance(left, Known) and isinstance(right, Live):
        return _by_weight(c, b, right, a, left, out, op)
    if is_weight(right) and isinstance(right, Known) and isinstance(left, Live):
        return _by_weight(c, a, left, b, right, out, op)
    return c.b.product(equation, c.node_of(left), c.node_of(right))


def _by_weight(c: Call, xs: str, x: Live, ws: str, weight: Known, out: str, op: str) -> int:
    node, shape = c.node_of(x), c.shape_of(x)
    sizes = dict(zip(xs, shape, strict=True))
    # Axes of size 1 broadcast: the weight's are dropped, the activation's are spread over the weight's.
    single = [i for i, letter in enumerate(ws) if weight.shape[i] == 1 and letter in sizes]
    weight = weight.moved(lambda a: a.reshape([n for i, n in enumerate(a.shape) if i not in single]))
    ws = "".join(letter for i, letter in enumerate(ws) if i not in single)
    widths = dict(zip(ws, weight.shape, strict=True))
    node = c.b.expand(node, [widths.get(letter, n) for letter, n in sizes.items()])
    sizes |= {letter: widths[letter] for letter in xs if letter in widths}
    summed = [letter for letter in xs if letter not in ws and letter not in out]
    if summed:
        node = c.b.reduce(node, [xs.index(letter) for letter in summed], keepdim=False)
        xs = "".join(letter for letter in xs if letter not in summed)
    batch = [letter for letter in xs if letter not in ws]
    groups = [letter for letter in xs if letter in ws and letter in out]
    inner = [letter for letter in xs if letter in ws and letter not in out]
    new = [letter for letter in ws if letter not in xs]
    count = math.prod(sizes[letter] for letter in groups)
    node = c.b.permute(node, [xs.index(letter) for letter in [*batch, *groups, *inner]])
    depth = count * math.prod(sizes[letter] for letter in inner)
    node = c.b.reshape(node, [*(sizes[letter] for letter in batch), depth])
    order = [ws.index(letter) for letter in [*groups, *new, *inner]]
    rows = math.prod(widths[letter] for letter in [*groups, *new])
    weight = weight.moved(lambda a: a.transpose(order).reshape(rows, depth // max(count, 1)))
    y = contract(c, node, weight, op, groups=count)
    letters = [*batch, *groups, *new]
    y = c.b.reshape(y, [(sizes | widths)[letter] for letter in letters])
    spare = [i for i, letter in enumerate(letters) if letter not in out]
    if spare:
        y = c.b.reduce(y, spare, keepdim=False)
        letters = [letter for letter in letters if letter in out]
    return c.b.permute(y, [letters.index(letter) for letter in out])


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


def matmul_equation(left: int, right: int, flip_left: bool = False, flip_right: bool = False) -> str:
    """numpy's matmul for operands of these ranks; vectors have no row or column axis."""
    batch = LETTERS[: max(left, right, 2) - 2]
    a = "z" if left == 1 else batch[len(batch) - left + 2 :] + ("zx" if flip_left else "xz")
    b = "z" if right == 1 else batch[len(batch) - right + 2 :] + ("yz" if flip_right else "zy")
    out = (batch if max(left, right) > 2 else "") + ("x" if left > 1 else "") + ("y" if right > 1 else "")
    return f"{a},{b}->{out}"


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
    terms, out = _explicit(c)
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
    node = c.node_of(done)
    spare = [i for i, letter in enumerate(letters) if letter not in out]
    node = c.b.reduce(node, spare, keepdim=False) if spare else node
    letters = "".join(letter for letter in letters if letter in out)
    return c.b.permute(node, [letters.index(letter) for letter in out])


def _explicit(c: Call) -> tuple[list[str], str]:
    """The equation with letters for the ellipsis and with its result written out."""
    equation = c.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    free = [letter for letter in LETTERS if letter not in equation]
    dots = max((len(c.shape(i)) - len(t.replace("...", "")) for i, t in enumerate(terms) if "..." in t), default=0)
    extra = "".join(free[:dots])
    for i, term in enumerate(terms):
        if "..." in term:
            n = len(c.shape(i)) - len(term) + 3
            terms[i] = term.replace("...", extra[dots - n :])
    if not arrow:
        letters = "".join(terms)
        right = ("..." if dots else "") + "".join(sorted(x for x in set(letters) - set(extra) if letters.count(x) == 1))
    return terms, right.replace("...", extra)


def _without_repeats(c: Call, value: Live | Known, letters: str) -> tuple[Live | Known, str]:
    """A letter that stands twice in one operand takes its diagonal."""
    unique = "".join(dict.fromkeys(letters))
    if unique == letters:
        return value, letters
    shape = c.shape_of(value)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    sizes = dict(zip(letters, shape, strict=True))
    index = np.zeros([sizes[letter] for letter in unique], np.int64)
    for axis, letter in enumerate(unique):
        step = sum(int(s) for s, name in zip(strides, letters, strict=True) if name == letter)
        index += (np.arange(sizes[letter]) * step).reshape([-1 if i == axis else 1 for i in range(len(unique))])
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
