"""Products of tensors: linear, matmul and its kin, einsum. With a stored tensor on one side it is a
contraction by a weight, otherwise a product of activations."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import Operands, family
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered, nonzero, very_negative
from effsparse_cli.graph import einsum as einsums
from effsparse_cli.graph.equations import LETTERS, matmul_equation, split_equation
from effsparse_cli.graph.layers import affine

operator = family("contraction", contracts=True, uses_weights=True, steps=costs.longest_axis)


def einsum_pair(low: Lowering, a: Arg, b: Arg, la: str, lb: str, out: str, op: str) -> int:
    """Two operands by their letters, none repeated within one; letters that only one has are summed first."""
    side = _weight_side(a, b)
    if side is None:
        return einsums.multiply(low.b, la, lb, out, low.node(a), low.node(b))
    x, w, lx, lw = (a, b, la, lb) if side == 1 else (b, a, lb, la)

    def apply(node: int, view: einsums.MatrixView, groups: int) -> int:
        return apply_weights(
            low, node, w, lambda t: t.reshape(view.split).permute(view.order).reshape(view.shape), op, groups
        )

    return einsums.contract(low.b, low.node(x), lx, lw, shape_of(low, w), out, apply)


def shape_of(low: Lowering, value: Arg) -> tuple[int, ...]:
    return tuple(value.tensor.shape) if isinstance(value, Const) else low.b.shape(low.node(value))


def _weight_side(a: Arg, b: Arg) -> int | None:
    """Which operand is the weight: the constant that comes from storage, the second if both do."""
    sides = [isinstance(v, Const) and bool(v.parts) for v in (a, b)]
    return 1 if sides[1] else 0 if sides[0] else None


def apply_weights(low: Lowering, x: int, w: Const, arrange: Arg, op: str, groups: int) -> int:
    """x [..., groups*C] by a constant arranged as [groups*N, C]: one contraction per stored tensor in it, and
    a product for what no stored tensor accounts for."""
    terms = [low.b.contract(x, node, groups=groups) for node in low.weights(w, arrange, op)]
    rest = low.literal(w)
    if rest is not None:
        filled = arrange(rest.tensor)
        c = filled.shape[1]
        split = low.b.reshape(x, (*low.b.shape(x)[:-1], groups, c))
        known = low.b.constant(filled.reshape(groups, -1, c).cpu().numpy())
        batch = LETTERS[: len(low.b.shape(x)) - 1]
        y = low.b.product(f"{batch}XZ,XYZ->{batch}XY", split, known)
        terms.append(low.b.reshape(y, (*low.b.shape(x)[:-1], filled.shape[0])))
    return low.b.join(*terms) if len(terms) > 1 else terms[0]


def add_bias(low: Lowering, y: int, bias: Arg, after: int = 0) -> int:
    """Add a bias along the axis that has `after` axes behind it."""
    if bias is None:
        return y
    shift = nonzero(bias.tensor) if isinstance(bias, Const) else low.node(bias)
    return affine(low.b, y, None, shift, -1 - after)


@operator("linear", operands=Operands(0, 1, 2), result_size=costs.linear)
def linear(low: Lowering, x: Arg, weight: Arg, bias: Arg) -> int:
    batch = LETTERS[: len(shape_of(low, x)) - 1]
    if len(shape_of(low, weight)) == 1:
        return add_bias(low, einsum_pair(low, x, weight, f"{batch}Z", "Z", batch, "linear"), bias)
    y = einsum_pair(low, x, weight, f"{batch}Z", "YZ", f"{batch}Y", "linear")
    return add_bias(low, y, bias)


@operator("mm", "matmul", operands=Operands(0, 1), result_size=costs.matrices)
@operator("bmm", "mv", result_size=costs.matrices)
@operator("dot", result_size=costs.one)
@operator("vdot", "inner")
def matmul(low: Lowering, a: Arg, b: Arg, *_: Arg) -> int:
    """As torch.matmul broadcasts; a matrix from a linear layer is called one."""
    equation = matmul_equation(len(shape_of(low, a)), len(shape_of(low, b)))
    la, lb, out = split_equation(equation)
    op = "linear" if low.call.name == "mm" else "matmul"
    return einsum_pair(low, a, b, la, lb, out, op)


@operator("addmm", operands=Operands(1, 2, 0), result_size=costs.matrices)
@operator("addmv", "baddbmm", result_size=costs.matrices)
@operator("_addmm_activation")
def add_matmul(low: Lowering, bias: Arg, a: Arg, b: Arg, beta: Arg = 1, alpha: Arg = 1, *_: Arg) -> Lowered:
    """beta * bias + a @ b; a constant that blocks positions blocks them here too."""
    op = "linear" if "addmm" in low.call.name else "matmul"
    rank = len(shape_of(low, a))
    la = "aXZ" if rank == 3 else "XZ"
    lb = "Z" if low.call.name == "addmv" else la[:-2] + "ZY"
    out = la[:-1] + lb[len(la) - 1 :] if lb != "Z" else "X"
    y = einsum_pair(low, a, b, la, lb, out, op)
    if beta == 0:
        return y
    blocked = very_negative(bias.tensor) if isinstance(bias, Const) else bias.blocked
    blocked = blocked if beta == 1 else None
    y = low.b.expand(low.b.join(y, low.node(bias)), low.call.shape)
    return Live(y, low.call.results[0].dtype, None if blocked is None else blocked.broadcast_to(low.call.shape))


@operator("addbmm")
def addbmm(low: Lowering, bias: Arg, a: Arg, b: Arg, *_: Arg) -> int:
    return low.b.join(einsum_pair(low, a, b, "aXZ", "aZY", "XY", "matmul"), low.node(bias))


@operator("outer", "ger", result_size=costs.product)
def outer(low: Lowering, a: Arg, b: Arg) -> int:
    return einsum_pair(low, a, b, "X", "Y", "XY", "matmul")


@operator("tensordot", steps=costs.summed_products)
def tensordot(low: Lowering, a: Arg, b: Arg, dims_a: Sequence[int], dims_b: Sequence[int]) -> int:
    rank_a, rank_b = len(shape_of(low, a)), len(shape_of(low, b))
    la, lb = list(LETTERS[:rank_a]), list(LETTERS[rank_a : rank_a + rank_b])
    for i, j in zip(dims_a, dims_b, strict=True):
        lb[j] = la[i]
    out = [c for c in la if c not in lb] + [c for c in lb if c not in la]
    return einsum_pair(low, a, b, "".join(la), "".join(lb), "".join(out), "matmul")


@operator("bilinear")
def bilinear(low: Lowering, x: Arg, z: Arg, weight: Arg, bias: Arg) -> int:
    """out[o] = x[i] w[o, i, j] z[j]: the weight meets x first."""
    batch = LETTERS[: len(shape_of(low, x)) - 1]
    y = einsum_pair(low, x, weight, f"{batch}X", "OXZ", f"{batch}OZ", "bilinear")
    return add_bias(low, low.b.product(f"{batch}OZ,{batch}Z->{batch}O", y, low.node(z)), bias)
