"""What depends on the values of the input: sizes, such as the number of tokens routed to an expert, and the operators
that were called. What is computed from an unknown size is assumed to depend on all operands, until a result has a known
size again; weights that one observed run did not use may be used with another input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import fx
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.torch.lowering.lowerer import Lowerer
from effsparse_cli.formats.torch.operators import find_operator
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result

UNKNOWN_SIZES = "operators whose sizes depend on the data"
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
UNOBSERVED = "another path than the observed one"


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
    sized = [torch.empty((), device="meta") if _is_unknown(r) else r for r in flat]
    results = lowerer.opaque(UNKNOWN_SIZES, values, sized)
    pairs = zip(results, flat, strict=True)
    return spec.unflatten([UnsizedValue(v.node, v.dtype) if _is_unknown(r) else v for v, r in pairs])


def _is_unknown(traced: object) -> bool:
    if isinstance(traced, torch.Tensor):
        return any(isinstance(n, SYMBOLS) for n in traced.shape)
    return isinstance(traced, SYMBOLS)


def decides(node: fx.Node, operands: Iterable[Arg]) -> bool:
    """Whether a call gives Python a value or a size that depends on the input."""
    operator = find_operator(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
    return operator is not None and operator.decides and any(isinstance(value, LiveValue) for value in operands)


def add_unobserved_weights(lowerer: Lowerer, outputs: Sequence[int]) -> list[int]:
    """Make the outputs depend on the weights that were not used."""
    weights = [lowerer.stored.constant(name) for name in lowerer.stored.untouched()]
    if not weights:
        return list(outputs)
    unobserved = lowerer.opaque(UNOBSERVED, weights, [torch.empty((), device="meta")])[0].node
    return [lowerer.b.join(output, unobserved) for output in outputs]
