"""Values whose size depends on the data, such as the tokens that each expert gets: what is computed from them is taken
to depend on everything that goes into it, until a result has a known size again."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered

LABEL = "operators whose sizes depend on the data"
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Loose(Live):
    """A value without a known size, or a number that is not known: a single node stands for it."""


def is_loose(operands: Arg, traced: Arg) -> bool:
    """Does the size of an operand or of a result depend on the data?"""
    flat = tree_flatten(operands)[0]
    return any(isinstance(value, Loose) for value in flat) or any(_unknown(each) for each in tree_flatten(traced)[0])


def lower_loosely(low: Lowering, operands: Arg, traced: Arg) -> Lowered:
    """The results, each depending on all operands."""
    values = [value for value in tree_flatten(operands)[0] if isinstance(value, Live | Const)]
    flat, spec = tree_flatten(traced)
    sized = [torch.empty((), device="meta") if _unknown(each) else each for each in flat]
    made = low.opaque(LABEL, values, sized)
    loose = [
        Loose(value.node, value.dtype) if _unknown(each) else value for value, each in zip(made, flat, strict=True)
    ]
    return spec.unflatten(loose)


def _unknown(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, SYMBOLS) for n in value.shape)
    return isinstance(value, SYMBOLS)
