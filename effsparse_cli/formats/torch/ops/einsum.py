"""torch.einsum, with more than two operands taken two at a time."""

from __future__ import annotations

from typing import Any

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.contraction import einsum_pair
from effsparse_cli.formats.torch.values import Arg, LiveValue, Result
from effsparse_cli.graph.contraction import sum_to
from effsparse_cli.graph.equations import LETTERS, parse_equation

operator = family("einsum", contracts=True, uses_weights=True, steps=costs.longest_axis)


@operator("einsum", steps=costs.einsum)
def einsum(call: OpCall, equation: str, operands: list[Any], path: Arg) -> Result:
    terms, out = parse_equation(equation, [len(call.shape_of(x)) for x in operands])
    if any(len(set(term)) != len(term) for term in terms):
        return NotImplemented
    if len(operands) == 1:
        return sum_to(call.b, call.node(operands[0]), terms[0], out)
    value, letters = operands[0], terms[0]
    for i in range(1, len(operands)):
        needed = set("".join(terms[i + 1 :])) | set(out)
        last = i == len(operands) - 1
        result = out if last else "".join(dict.fromkeys(c for c in letters + terms[i] if c in needed))
        node = einsum_pair(call, value, operands[i], letters, terms[i], result, "einsum")
        value, letters = LiveValue(node, call.dtype), result
    return value.node


@operator("_trilinear")
def trilinear(
    call: OpCall, a: Arg, b: Arg, c: Arg, no_a: list[int], no_b: list[int], no_c: list[int], summed: list[int], *_: Arg
) -> int:
    """The operator that bilinear layers are decomposed to: three operands, each without some axes, and axes to sum."""
    rank = len(call.shape_of(a)) + len(no_a)
    letters = LETTERS[:rank]
    la, lb, lc, out = (
        "".join(x for i, x in enumerate(letters) if i not in gone) for gone in (no_a, no_b, no_c, summed)
    )
    both = "".join(x for x in letters if x in la + lb and x in lc + out)
    first = LiveValue(einsum_pair(call, a, b, la, lb, both, "bilinear"), call.dtype)
    return einsum_pair(call, first, c, both, lc, out, "bilinear")
