"""Products of tensors: linear, matmul and its kin, einsum. With a stored tensor on one side it is a
contraction by a weight, otherwise a product of activations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from effsparse_cli.formats.torch.lowering import Lowering, compress
from effsparse_cli.formats.torch.registry import lowers
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered, nonzero, very_negative
from effsparse_cli.graph.builder import LETTERS
from effsparse_cli.graph.layers import affine


def einsum_pair(low: Lowering, a: Arg, b: Arg, la: str, lb: str, out: str, op: str) -> int:
    """Two operands by their letters, none repeated within one; letters that only one has are summed first."""
    a_shape, b_shape = shape_of(low, a), shape_of(low, b)
    weight_side = _weight_side(a, b)
    if weight_side is None:
        return _product(low, low.node(a), low.node(b), la, lb, out)
    x, w, lx, lw = (a, b, la, lb) if weight_side == 1 else (b, a, lb, la)
    sizes_x = dict(zip(lx, a_shape if weight_side == 1 else b_shape, strict=True))
    sizes_w = dict(zip(lw, b_shape if weight_side == 1 else a_shape, strict=True))
    return _contract(low, low.node(x), w, sizes_x, sizes_w, out, op)


def shape_of(low: Lowering, value: Arg) -> tuple[int, ...]:
    return tuple(value.tensor.shape) if isinstance(value, Const) else low.b.shape(low.node(value))


def _weight_side(a: Arg, b: Arg) -> int | None:
    """Which operand is the weight: the constant that comes from storage, the second if both do."""
    sides = [isinstance(v, Const) and bool(v.parts) for v in (a, b)]
    return 1 if sides[1] else 0 if sides[0] else None


def _product(low: Lowering, a: int, b: int, la: str, lb: str, out: str) -> int:
    for letters, other in ((la, lb), (lb, la)):
        alone = [i for i, c in enumerate(letters) if c not in other and c not in out]
        if alone:
            node = low.b.reduce(a if letters is la else b, alone, keepdim=False)
            kept = "".join(c for c in letters if c in other or c in out)
            pair = (node, b, kept, lb) if letters is la else (a, node, la, kept)
            return _product(low, *pair, out)
    return low.b.product(f"{la},{lb}->{out}", a, b)


def _contract(
    low: Lowering, x: int, w: Const, sizes_x: dict[str, int], sizes_w: dict[str, int], out: str, op: str
) -> int:
    """x to [*batch, groups, C], the weight to [groups, N, C]; both flattened to what Contract wants."""
    # An axis of size 1 that broadcasts against the other operand is no axis of its own operand.
    lx = [c for c in sizes_x if not (sizes_x[c] == 1 and sizes_w.get(c, 1) > 1)]
    lw = [c for c in sizes_w if not (sizes_w[c] == 1 and sizes_x.get(c, 1) > 1)]
    x = low.b.reshape(x, [sizes_x[c] for c in lx])
    alone = [i for i, c in enumerate(lx) if c not in lw and c not in out]
    if alone:
        x = low.b.reduce(x, alone, keepdim=False)
        lx = [c for c in lx if c in lw or c in out]
    shared = [c for c in lx if c in lw and c in out]
    summed = [c for c in lx if c in lw and c not in out]
    batch = [c for c in lx if c not in lw]
    new = [c for c in lw if c not in lx]
    groups, n = math.prod(sizes_w[c] for c in shared), math.prod(sizes_w[c] for c in new)
    width = math.prod(sizes_w[c] for c in summed)
    batch_sizes = [sizes_x[c] for c in batch]
    flat = low.b.permute(x, [lx.index(c) for c in batch + shared + summed])
    flat = low.b.reshape(flat, [*batch_sizes, groups * width])

    def arrange(ghost: torch.Tensor) -> torch.Tensor:
        kept = ghost.reshape([sizes_w[c] for c in lw])
        return kept.permute([lw.index(c) for c in shared + new + summed]).reshape(groups * n, width)

    y = apply_weights(low, flat, w, arrange, op, groups)
    have = batch + shared + new
    y = low.b.reshape(y, [*batch_sizes, *(sizes_w[c] for c in shared + new)])
    extra = [i for i, c in enumerate(have) if c not in out]
    if extra:
        y = low.b.reduce(y, extra, keepdim=False)
        have = [c for c in have if c in out]
    return low.b.permute(y, [have.index(c) for c in out])


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
    if isinstance(bias, Const):
        return affine(low.b, y, None, compress(nonzero(bias.tensor)), -1 - after)
    node = low.node(bias)
    return low.b.join(y, low.b.reshape(node, (*low.b.shape(node), *(1,) * after)))


@lowers("linear")
def linear(low: Lowering, x: Arg, weight: Arg, bias: Arg) -> int:
    batch = LETTERS[: len(shape_of(low, x)) - 1]
    if len(shape_of(low, weight)) == 1:
        return add_bias(low, einsum_pair(low, x, weight, f"{batch}Z", "Z", batch, "linear"), bias)
    y = einsum_pair(low, x, weight, f"{batch}Z", "YZ", f"{batch}Y", "linear")
    return add_bias(low, y, bias)


@lowers("mm", "bmm", "matmul", "mv", "dot", "vdot", "inner")
def matmul(low: Lowering, a: Arg, b: Arg, *_: Arg) -> int:
    """As torch.matmul broadcasts; a matrix from a linear layer is called one."""
    rank_a, rank_b = len(shape_of(low, a)), len(shape_of(low, b))
    batch = LETTERS[: max(rank_a, rank_b, 2) - 2]
    la = (batch[len(batch) - (rank_a - 2) :] if rank_a > 2 else "") + ("XZ" if rank_a > 1 else "Z")
    lb = (batch[len(batch) - (rank_b - 2) :] if rank_b > 2 else "") + ("ZY" if rank_b > 1 else "Z")
    out = batch + ("X" if rank_a > 1 else "") + ("Y" if rank_b > 1 else "")
    op = "linear" if low.call.name == "mm" else "matmul"
    return einsum_pair(low, a, b, la, lb, out, op)


@lowers("addmm", "addmv", "baddbmm", "_addmm_activation")
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


@lowers("addbmm")
def addbmm(low: Lowering, bias: Arg, a: Arg, b: Arg, *_: Arg) -> int:
    return low.b.join(einsum_pair(low, a, b, "aXZ", "aZY", "XY", "matmul"), low.node(bias))


@lowers("outer", "ger")
def outer(low: Lowering, a: Arg, b: Arg) -> int:
    return einsum_pair(low, a, b, "X", "Y", "XY", "matmul")


@lowers("tensordot")
def tensordot(low: Lowering, a: Arg, b: Arg, dims_a: Sequence[int], dims_b: Sequence[int]) -> int:
    rank_a, rank_b = len(shape_of(low, a)), len(shape_of(low, b))
    la, lb = list(LETTERS[:rank_a]), list(LETTERS[rank_a : rank_a + rank_b])
    for i, j in zip(dims_a, dims_b, strict=True):
        lb[j] = la[i]
    out = [c for c in la if c not in lb] + [c for c in lb if c not in la]
    return einsum_pair(low, a, b, "".join(la), "".join(lb), "".join(out), "matmul")


@lowers("bilinear")
def bilinear(low: Lowering, x: Arg, z: Arg, weight: Arg, bias: Arg) -> int:
    """out[o] = x[i] w[o, i, j] z[j]: the weight meets x first."""
    batch = LETTERS[: len(shape_of(low, x)) - 1]
    y = einsum_pair(low, x, weight, f"{batch}X", "OXZ", f"{batch}OZ", "bilinear")
    return add_bias(low, low.b.product(f"{batch}OZ,{batch}Z->{batch}O", y, low.node(z)), bias)
