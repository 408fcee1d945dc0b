"""What the project knows about each aten operator: one row of `OPERATORS` per operator, written in the file of its
family under `ops/` beside the function that lowers it. Loading and repair read the same row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeVar

import torch

from effsparse_cli.formats.torch.constants.costs import ResultSize, Steps, few_steps

Lower = Callable[..., Any]
F = TypeVar("F", bound=Lower)
Effect = Literal["pure", "random", "asserts"]
Folding = Literal["mixes", "moves", "reshapes", "elementwise", "copies", "scales", "masks", "adds"]


@dataclass(frozen=True)
class Operands:
    """Positions of a contraction's activation, weight and bias among its arguments. `spatial`: the weight's spatial
    axes come after its channels, otherwise it is a matrix."""

    x: int
    weight: int
    bias: int | None = None
    spatial: bool = False


@dataclass(frozen=True)
class Norm:
    """Positions of a batch norm's parameters; `training` is the flag for using the statistics of the batch."""

    scale: int = 1
    shift: int = 2
    mean: int = 3
    training: int | None = None


@dataclass(frozen=True)
class Lookup:
    """Positions of a lookup's table and index."""

    table: int
    index: int


@dataclass(frozen=True)
class Operator:
    """One aten operator.

    - `lower(call, *arguments)` expresses a call in primitives. It gets every argument of the schema, defaults included,
      and returns a node, a value or a list of them, or NotImplemented for a form that it does not support. Without it
      the operator is only evaluated on constants, and becomes Opaque if its operands depend on the input.
    - `effect`: "pure" operators always return the same for the same arguments and do nothing else, so they may be
      evaluated; "random" and "asserts" may be in a file but are not evaluated.
    - `folding`: what a constant result consists of. "moves": elements of the operands and nothing new; "reshapes": all
      of them in the same order; "elementwise": each is computed from those at its position, of which "copies" leaves
      them as they are, "scales" keeps zeros, "masks" multiplies and "adds" sums; "mixes": each depends on several.
    - `keeps_zero`: False if a reduction of zeros is not zero. Elementwise operators are run on zeros instead.
    - `contracts`: a sum of products by a weight. `uses_weights`: it has weights, contracted or looked up.
    - `shape_only`: it reads no element of its operand. `view_or_copy`: a view that copies where it has to. `fill`: the
      position of the value that it pads with, which makes it more than data movement unless that is zero.
    - `size_from_values`: the size of its result depends on values. `decides`: Python gets a value or a size.
    - `result_size` bounds the elements of the results, `steps` counts elementary steps per element of them, and
      `largest` is the number of elements beyond which it is not evaluated.
    """

    name: str
    family: str
    lower: Lower | None = None
    effect: Effect = "pure"
    folding: Folding | None = None
    keeps_zero: bool = True
    contracts: bool = False
    uses_weights: bool = False
    operands: Operands | None = None
    norm: Norm | None = None
    lookup: Lookup | None = None
    shape_only: bool = False
    view_or_copy: bool = False
    fill: int | None = None
    size_from_values: bool = False
    decides: bool = False
    result_size: ResultSize | None = None
    steps: Steps = few_steps
    largest: int | None = None


def folding_of(target: torch._ops.OpOverload) -> Folding:
    """How a constant passes an operator whose row does not say: torch itself marks elementwise ones."""
    return "elementwise" if torch.Tag.pointwise in target.tags else "mixes"


OPERATORS: dict[str, Operator] = {}


class Define(Protocol):
    def __call__(self, *names: str, **facts: Any) -> Callable[[F], F]: ...


def family(name: str, **defaults: Any) -> Define:
    """Return the decorator that adds rows of a family; `defaults` are facts that its operators share.

    The decorator takes aten names: "relu" for all overloads and the in-place form, "max.dim" for one overload,
    "quantized::add" for another namespace."""

    def define(*names: str, **facts: Any) -> Callable[[F], F]:
        def add(function: F) -> F:
            for each in names:
                _add(Operator(each, name, function, **{**defaults, **facts}))
            return function

        return add

    return define


def evaluated(*names: str, **facts: Any) -> None:
    """Add operators that have no lowering, only an evaluation on constants."""
    for name in names:
        _add(Operator(name, "evaluated", **facts))


def _add(operator: Operator) -> None:
    if operator.name in OPERATORS:
        raise ValueError(
            f"operator {operator.name} is defined twice: {OPERATORS[operator.name].family} and {operator.family}"
        )
    OPERATORS[operator.name] = operator


@cache
def find(target: torch._ops.OpOverload) -> Operator | None:
    """Return the row of an operator: of its overload, its name, then of what it is the in-place or copying form of."""
    from effsparse_cli.formats.torch import ops  # noqa: F401  fills the table

    name, overload = target.overloadpacket.__name__, target._overloadname
    prefix = "" if target.namespace in ("aten", "prims") else f"{target.namespace}::"
    for form in (name, name.removesuffix("_"), name.removesuffix("_copy")):
        for key in (f"{prefix}{form}.{overload}", f"{prefix}{form}"):
            if key in OPERATORS:
                return OPERATORS[key]
    return None
