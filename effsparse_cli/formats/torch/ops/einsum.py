"""torch.einsum: ellipses get letters, repeated letters become diagonals, and more than two operands are
taken two at a time."""

from __future__ import annotations

from typing import Any

from effsparse_cli.formats.torch.lowering import Lowering
from effsparse_cli.formats.torch.ops.contraction import einsum_pair, shape_of
from effsparse_cli.formats.torch.registry import lowers
from effsparse_cli.formats.torch.values import Arg, Live, Lowered
from effsparse_cli.graph.builder import LETTERS


@lowers("einsum")
def einsum(low: Lowering, equation: str, operands: list[Any], path: Arg) -> Lowered:
    terms, out = explicit(equation, [len(shape_of(low, x)) for x in operands])
    if any(len(set(term)) != len(term) for term in terms):
        return NotImplemented
    if len(operands) == 1:
        return _single(low, low.node(operands[0]), terms[0], out)
    value, letters = operands[0], terms[0]
    for i in range(1, len(operands)):
        needed = set("".join(terms[i + 1 :])) | set(out)
        last = i == len(operands) - 1
        result = out if last else "".join(dict.fromkeys(c for c in letters + terms[i] if c in needed))
        node = einsum_pair(low, value, operands[i], letters, terms[i], result, "einsum")
        value, letters = Live(node, low.call.results[0].dtype), result
    return value.node


def _single(low: Lowering, x: int, letters: str, out: str) -> int:
    gone = [i for i, c in enumerate(letters) if c not in out]
    x = low.b.reduce(x, gone, keepdim=False) if gone else x
    kept = [c for c in letters if c in out]
    return low.b.permute(x, [kept.index(c) for c in out])


def explicit(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Terms and result with a letter for every axis: ellipses spelled out, a missing result made."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spare = [c for c in LETTERS if c not in equation]
    dots = max((rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term),
               default=0)  # fmt: skip
    hidden = "".join(spare[:dots])
    if not arrow:
        counts = left.replace("...", "").replace(",", "")
        out = ("..." if "..." in left else "") + "".join(sorted(c for c in set(counts) if counts.count(c) == 1))
    spelled = []
    for term, rank in zip(terms, ranks, strict=True):
        own = rank - len(term.replace("...", ""))
        spelled.append(term.replace("...", hidden[dots - own :] if own else ""))
    return spelled, out.replace("...", hidden)


@lowers("_trilinear")
def trilinear(
    low: Lowering, a: Arg, b: Arg, c: Arg, no_a: list[int], no_b: list[int], no_c: list[int], summed: list[int], *_: Arg
) -> int:
    """What bilinear layers are below: three operands, each without some of the axes, and axes to sum over."""
    rank = len(shape_of(low, a)) + len(no_a)
    letters = LETTERS[:rank]
    la, lb, lc, out = (
        "".join(x for i, x in enumerate(letters) if i not in gone) for gone in (no_a, no_b, no_c, summed)
    )
    both = "".join(x for x in letters if x in la + lb and x in lc + out)
    first = Live(einsum_pair(low, a, b, la, lb, both, "bilinear"), low.call.results[0].dtype)
    return einsum_pair(low, first, c, both, lc, out, "bilinear")
