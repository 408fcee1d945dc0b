"""torch.einsum: ellipses get letters, repeated letters become diagonals, and more than two operands are
taken two at a time."""

from __future__ import annotations

from typing import Any

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.contraction import einsum_pair, shape_of
from effsparse_cli.formats.torch.values import Arg, Live, Lowered
from effsparse_cli.graph.einsum import sum_to
from effsparse_cli.graph.equations import LETTERS, parse_equation

operator = family("einsum", contracts=True, uses_weights=True, steps=costs.longest_axis)


@operator("einsum", steps=costs.einsum)
def einsum(low: Lowering, equation: str, operands: list[Any], path: Arg) -> Lowered:
    terms, out = parse_equation(equation, [len(shape_of(low, x)) for x in operands])
    if any(len(set(term)) != len(term) for term in terms):
        return NotImplemented
    if len(operands) == 1:
        return sum_to(low.b, low.node(operands[0]), terms[0], out)
    value, letters = operands[0], terms[0]
    for i in range(1, len(operands)):
        needed = set("".join(terms[i + 1 :])) | set(out)
        last = i == len(operands) - 1
        result = out if last else "".join(dict.fromkeys(c for c in letters + terms[i] if c in needed))
        node = einsum_pair(low, value, operands[i], letters, terms[i], result, "einsum")
        value, letters = Live(node, low.call.results[0].dtype), result
    return value.node


@operator("_trilinear")
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
