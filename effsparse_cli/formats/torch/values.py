"""What lowering knows of a traced tensor: a node of the graph (`LiveValue`), or a tensor that no model input reaches
(`ConstantValue`), with the stored tensors that its elements come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from effsparse_cli.graph.primitives import Bools

Keep = Callable[[], Bools]
Arg: TypeAlias = Any
"""An argument of an operator: a value, a list of values, a number, a flag, a name or None."""
Result: TypeAlias = Any
"""The result of a lowering function: a node, a value, a list of them, or NotImplemented."""


@dataclass(frozen=True, eq=False)
class LiveValue:
    """A node of the graph. `blocked` marks positions with a score of minus infinity, which a softmax makes zero."""

    node: int
    dtype: torch.dtype
    blocked: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """The elements of a constant that come from one stored tensor, by their index map. `keep` computes what is kept of
    the stored tensor, in its shape; `masked` if a mask and not its values decides that."""

    stored: str
    index_map: torch.Tensor
    keep: Keep
    masked: bool = False


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stored tensor, or a view of it, as an operand of a computation."""

    stored: str
    index_map: torch.Tensor


@dataclass(frozen=True, eq=False)
class Record:
    """An op call that was evaluated on constants, with recipes as operands, so that it holds no computed tensor."""

    call: Any
    place: str


@dataclass(frozen=True, eq=False)
class Made:
    """Result `position` of a recorded op call."""

    record: Record
    position: int


Recipe = Leaf | Made


@dataclass(frozen=True, eq=False)
class ConstantValue:
    """A tensor that no model input reaches.

    - `compute` computes it again from the stored tensors as they are then.
    - `parts` are the stored tensors whose elements it consists of.
    - `lower` is set if stored weights were contracted to compute it. Used as an activation, it is then lowered op call
      by op call, so that those weights are connections like all others.
    - `mixed` are the stored tensors that contribute to it in other ways, as they were before.
    - `recipe` tells how it was computed from stored tensors.
    """

    tensor: torch.Tensor
    compute: Callable[[], torch.Tensor]
    parts: tuple[Part, ...] = ()
    lower: Callable[[], int] | None = None
    mixed: tuple[Part, ...] = ()
    recipe: Recipe | None = None


Value = LiveValue | ConstantValue


def constant_value(tensor: torch.Tensor) -> ConstantValue:
    """Return a constant that no stored tensor contributes to."""
    return ConstantValue(tensor, lambda: tensor)
