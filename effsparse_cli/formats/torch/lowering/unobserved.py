"""Weights that one observed run did not use, though values that depend on the input decided which way it went: another
input may use them, as with experts that no token was sent to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import fx

from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import find
from effsparse_cli.formats.torch.values import Arg, Live

LABEL = "another path than the observed one"


def decides(node: fx.Node, values: Iterable[Arg]) -> bool:
    """Does the operator give Python a value, or a size, that depends on the input?"""
    operator = find(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
    return operator is not None and operator.decides and any(isinstance(value, Live) for value in values)


def with_other_paths(low: Lowering, outputs: Sequence[int]) -> list[int]:
    """The outputs, which may depend on the weights that were not used."""
    weights = [low.stored.const(name) for name in low.stored.untouched()]
    if not weights:
        return list(outputs)
    other = low.opaque(LABEL, weights, [torch.empty((), device="meta")])[0].node
    return [low.b.join(output, other) for output in outputs]
