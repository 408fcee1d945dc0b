"""Weights that one observed run did not use although values that depend on the input decided which operators it called:
another input may use them, as with experts that no token was routed to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import fx

from effsparse_cli.formats.torch.lowering.lowerer import Lowerer
from effsparse_cli.formats.torch.operators import find_operator
from effsparse_cli.formats.torch.values import Arg, LiveValue

LABEL = "another path than the observed one"


def decides(node: fx.Node, operands: Iterable[Arg]) -> bool:
    """Whether a call gives Python a value or a size that depends on the input."""
    operator = find_operator(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
    return operator is not None and operator.decides and any(isinstance(value, LiveValue) for value in operands)


def add_unobserved_weights(lowerer: Lowerer, outputs: Sequence[int]) -> list[int]:
    """Make the outputs depend on the weights that were not used."""
    weights = [lowerer.stored.constant(name) for name in lowerer.stored.untouched()]
    if not weights:
        return list(outputs)
    unobserved = lowerer.opaque(LABEL, weights, [torch.empty((), device="meta")])[0].node
    return [lowerer.b.join(output, unobserved) for output in outputs]
