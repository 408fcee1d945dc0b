"""Values whose size depends on the data, such as the tokens routed to an expert. What is computed from them is assumed
to depend on all operands, until a result has a known size again."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.torch.lowering.lowerer import Lowerer
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result

LABEL = "operators whose sizes depend on the data"
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class UnsizedValue(LiveValue):
    """A tensor of unknown size or an unknown number, represented by a single node."""


def has_unknown_size(operands: Arg, traced: Arg) -> bool:
    """Whether the size of an operand or of a result depends on the data."""
    operands, results = tree_flatten(operands)[0], tree_flatten(traced)[0]
    return any(isinstance(value, UnsizedValue) for value in operands) or any(_is_unknown(each) for each in results)


def lower_unsized(lowerer: Lowerer, operands: Arg, traced: Arg) -> Result:
    """Return the results of a call, each depending on all operands."""
    values = [value for value in tree_flatten(operands)[0] if isinstance(value, LiveValue | ConstantValue)]
    flat, spec = tree_flatten(traced)
    results = lowerer.opaque(LABEL, values, [torch.empty((), device="meta") if _is_unknown(r) else r for r in flat])
    return spec.unflatten(
        [UnsizedValue(v.node, v.dtype) if _is_unknown(r) else v for v, r in zip(results, flat, strict=True)]
    )


def _is_unknown(traced: object) -> bool:
    if isinstance(traced, torch.Tensor):
        return any(isinstance(n, SYMBOLS) for n in traced.shape)
    return isinstance(traced, SYMBOLS)
