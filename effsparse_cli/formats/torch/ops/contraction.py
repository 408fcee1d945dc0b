"""Products of tensors: linear, matmul and similar operators. With a stored tensor on one side it is a contraction by a
weight, otherwise a product of activations."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import Contraction, family
from effsparse_cli.formats.torch.tensors import nonzero, very_negative
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result
from effsparse_cli.graph import contraction
from effsparse_cli.graph.equations import LETTERS, matmul_equation, split_equation
from effsparse_cli.graph.layers import affine

operator = family("contraction", contracts=True, uses_weights=True, steps=costs.longest_axis)


def einsum_pair(call: OpCall, a: Arg, b: Arg, la: str, lb: str, out: str, op: str) -> int:
    """Multiply two operands given by their letters, each once per operand; those that only one has are summed first."""
    has_weight = [isinstance(v, ConstantValue) and bool(v.parts) for v in (a, b)]
    if not any(has_weight):
        return contraction.multiply(call.b, call.node(a), call.node(b), left=la, right=lb, out=out)
    # The second is the weight if both have stored elements.
    x, w, lx, lw = (a, b, la, lb) if has_weight[1] else (b, a, lb, la)

    def apply(node: int, view: contraction.MatrixView, groups: int) -> int:
        return apply_weights(
            call, node, w, lambda t: t.reshape(view.split).permute(view.order).reshape(view.shape), op, groups
        )

    return contraction.contract(
        call.b, call.node(x), letters=lx, weight_letters=lw, weight_shape=call.shape_of(w), out=out, apply=apply
    )


def apply_weights(call: OpCall, x: int, w: ConstantValue, arrange: Arg, op: str, groups: int) -> int:
    """Contract x [..., groups*C] by a constant arranged as [groups*N, C]: one contraction for each stored tensor in it,
    and a product for elements that are not stored."""
    terms = [call.b.contract(x, node, groups=groups) for node in call.weights(w, arrange, op)]
    rest = call.not_stored(w)
    if rest is not None:
        filled = arrange(rest.tensor)
        c = filled.shape[1]
        split = call.b.reshape(x, (*call.b.shape(x)[:-1], groups, c))
        known = call.b.constant(filled.reshape(groups, -1, c).cpu().numpy())
        batch = LETTERS[: len(call.b.shape(x)) - 1]
        y = call.b.product(f"{batch}XZ,XYZ->{batch}XY", split, known)
        terms.append(call.b.reshape(y, (*call.b.shape(x)[:-1], filled.shape[0])))
    return call.b.join(*terms) if len(terms) > 1 else terms[0]


def add_bias(call: OpCall, y: int, bias: Arg, after: int = 0) -> int:
    """Add a bias along the axis that is followed by `after` axes."""
    if bias is None:
        return y
    shift = nonzero(bias.tensor) if isinstance(bias, ConstantValue) else call.node(bias)
    return affine(call.b, y, shift=shift, axis=-1 - after)


@operator("linear", contraction=Contraction(0, 1, 2), result_size=costs.linear)
def linear(call: OpCall, x: Arg, weight: Arg, bias: Arg) -> int:
    batch = LETTERS[: len(call.shape_of(x)) - 1]
    if len(call.shape_of(weight)) == 1:
        return add_bias(call, einsum_pair(call, x, weight, f"{batch}Z", "Z", batch, "linear"), bias)
    y = einsum_pair(call, x, weight, f"{batch}Z", "YZ", f"{batch}Y", "linear")
    return add_bias(call, y, bias)


@operator("mm", "matmul", contraction=Contraction(0, 1), result_size=costs.matrices)
@operator("bmm", "mv", result_size=costs.matrices)
@operator("dot", result_size=lambda *_: 1)
@operator("vdot", "inner")
def matmul(call: OpCall, a: Arg, b: Arg, *_: Arg) -> int:
    """Broadcast like torch.matmul. `mm` comes from linear layers, so its layer is called linear."""
    equation = matmul_equation(len(call.shape_of(a)), len(call.shape_of(b)))
    return einsum_pair(call, a, b, *split_equation(equation), "linear" if call.name == "mm" else "matmul")


@operator("addmm", contraction=Contraction(1, 2, 0), result_size=costs.matrices)
@operator("addmv", "baddbmm", result_size=costs.matrices)
@operator("_addmm_activation")
def add_matmul(call: OpCall, bias: Arg, a: Arg, b: Arg, beta: Arg = 1, alpha: Arg = 1, *_: Arg) -> Result:
    """beta * bias + a @ b. A bias of minus infinity blocks positions."""
    equation = matmul_equation(len(call.shape_of(a)), len(call.shape_of(b)))
    y = einsum_pair(call, a, b, *split_equation(equation), "linear" if "addmm" in call.name else "matmul")
    if beta == 0:
        return y
    blocked = very_negative(bias.tensor) if isinstance(bias, ConstantValue) else bias.blocked
    blocked = blocked if beta == 1 else None
    y = call.b.expand(call.b.join(y, call.node(bias)), call.shape)
    return LiveValue(y, call.dtype, None if blocked is None else blocked.broadcast_to(call.shape))


@operator("addbmm")
def addbmm(call: OpCall, bias: Arg, a: Arg, b: Arg, *_: Arg) -> int:
    return call.b.join(einsum_pair(call, a, b, "aXZ", "aZY", "XY", "matmul"), call.node(bias))


@operator("outer", "ger", result_size=costs.product)
def outer(call: OpCall, a: Arg, b: Arg) -> int:
    return einsum_pair(call, a, b, "X", "Y", "XY", "matmul")


@operator("tensordot", steps=costs.summed_products)
def tensordot(call: OpCall, a: Arg, b: Arg, dims_a: Sequence[int], dims_b: Sequence[int]) -> int:
    rank_a, rank_b = len(call.shape_of(a)), len(call.shape_of(b))
    la, lb = list(LETTERS[:rank_a]), list(LETTERS[rank_a : rank_a + rank_b])
    for i, j in zip(dims_a, dims_b, strict=True):
        lb[j] = la[i]
    out = [c for c in la if c not in lb] + [c for c in lb if c not in la]
    return einsum_pair(call, a, b, "".join(la), "".join(lb), "".join(out), "matmul")


@operator("bilinear")
def bilinear(call: OpCall, x: Arg, z: Arg, weight: Arg, bias: Arg) -> int:
    """out[o] = x[i] w[o, i, j] z[j]: x is contracted by the weight first."""
    batch = LETTERS[: len(call.shape_of(x)) - 1]
    y = einsum_pair(call, x, weight, f"{batch}X", "OXZ", f"{batch}OZ", "bilinear")
    return add_bias(call, call.b.product(f"{batch}OZ,{batch}Z->{batch}O", y, call.node(z)), bias)
