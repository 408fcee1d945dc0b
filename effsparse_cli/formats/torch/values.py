"""What a traced value is while it is lowered: a node of the graph, or a tensor that is known for good, with
the stored tensors that its elements come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.storage.mapped import release
from effsparse_cli.formats.torch.tensors import find_nonzero, numbers_of
from effsparse_cli.graph.primitives import Bools

Now = Callable[[], torch.Tensor]
Keep = Callable[[], Bools]
Arg: TypeAlias = Any
"""An argument as an operator's schema has it: a value, a list of them, a number, a flag, a name or nothing."""
Lowered: TypeAlias = Any
"""What lowering an operator gives: a node, a value, a list of them, or NotImplemented."""


@dataclass(frozen=True, eq=False)
class Live:
    """A node. `blocked` marks the positions that hold minus infinity or so: a softmax lets nothing pass there."""

    node: int
    dtype: torch.dtype
    blocked: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """The elements of a constant that come from one stored tensor: `ghost` says which stand where, `keep`
    gives what is kept of the stored tensor, in its shape; `masked` if a mask says so rather than values."""

    stored: str
    ghost: torch.Tensor
    keep: Keep
    masked: bool = False


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stored tensor, or a view of it, as an operand of a computation: `ghost` says which elements stand where."""

    stored: str
    ghost: torch.Tensor


@dataclass(frozen=True, eq=False)
class Record:
    """An operator that was evaluated on constants, with its operands replaced by their recipes. It holds no tensor
    that was computed from a stored one."""

    call: Any
    operator: Any
    place: str


@dataclass(frozen=True, eq=False)
class Made:
    """Result `position` of a recorded operator."""

    record: Record
    position: int


Recipe = Leaf | Made


@dataclass(frozen=True, eq=False)
class Const:
    """A tensor that no model input reaches. `now` computes it again from the stored tensors as they are when
    asked. `emit` is set where stored weights were contracted on the way: as an activation it then enters the
    graph operator by operator, so that those weights are connections like all others. `mixed` has the stored
    tensors that went into it in ways that `parts` do not tell of, as they were before that; `recipe` says how it
    was computed from stored tensors."""

    tensor: torch.Tensor
    now: Now
    parts: tuple[Part, ...] = ()
    emit: Callable[[], int] | None = None
    mixed: tuple[Part, ...] = ()
    recipe: Recipe | None = None


Value = Live | Const


def fixed(tensor: torch.Tensor) -> Const:
    return Const(tensor, lambda: tensor)


def nonzero(tensor: torch.Tensor) -> Bools:
    """Where a tensor is not zero: -0.0 is zero, NaN is not, a quantised zero is the zero point. Compared
    where the tensor lives, so that only booleans travel."""
    tensor = tensor.detach()
    if tensor.is_meta:
        raise LoadError("the model's weights are on the meta device and have no values; load them before measuring")
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.device.type != "cpu":
        wide = tensor.to(torch.float32) if tensor.is_floating_point() and tensor.element_size() == 1 else tensor
        return np.asarray((wide != 0).cpu().numpy())
    return find_nonzero(tensor.resolve_conj().resolve_neg())


def numbers_kept(tensor: torch.Tensor) -> Keep:
    """What is kept of a tensor by its own numbers: scanned as it lies in memory, where it lies there as it is."""
    if tensor.is_meta or tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_quantized:
        return partial(nonzero, tensor)
    if tensor.dtype == torch.float8_e8m0fnu or tensor.is_conj() or tensor.is_neg() or not tensor.is_contiguous():
        return partial(nonzero, tensor)
    return numbers_of(tensor.detach())


def very_negative(tensor: torch.Tensor) -> torch.Tensor | None:
    """Where a tensor is minus infinity, or so near to it that nothing added brings it back; None if nowhere."""
    if not tensor.is_floating_point() or tensor.is_meta:
        return None
    found = tensor.detach().cpu() <= torch.finfo(tensor.dtype).min / 2
    return found if bool(found.any()) else None


def numbers(tensor: torch.Tensor) -> NDArray[Any]:
    """A tensor's values as numpy has them; types that numpy lacks become float32."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        narrow, tensor = tensor, tensor.to(torch.float32)
        release(narrow)
    return np.asarray(tensor.cpu().numpy())
