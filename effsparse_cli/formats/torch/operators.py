"""The table of aten operators. One `Operator` states everything that the project knows about an operator: loading and
repair both read it here. The modules in `ops/` fill the table, each with one family of operators."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeVar

import torch

from effsparse_cli.formats.operands import Lookup, Norm
from effsparse_cli.formats.torch.constants.costs import ResultSize, Steps, few_steps

Lower = Callable[..., Any]
F = TypeVar("F", bound=Lower)
Effect = Literal["pure", "random", "asserts"]
Folding = Literal["mixes", "moves", "reshapes", "elementwise", "copies", "scales", "masks", "adds"]
"""The origin of the result of a call on constants:

- "moves": elements of the operands and nothing new. "reshapes": all of them in the same order.
- "elementwise": each element is computed from those at its position. "copies": it is unchanged; "scales": zeros stay
  zero; "masks": a product, of which one factor can be a mask; "adds": a sum, whose summands are weights of their own.
- "mixes": each element depends on several elements of an operand.
"""
NAMESPACES = ("aten", "prims")
TEXT_ARGUMENTS = {
    "approximate", "assert_msg", "driver", "equation", "indexing", "interpolation", "mode", "norm", "ord", "pad_mode",
    "padding", "reduce", "rounding_mode", "side", "UPLO",
}  # fmt: skip
"""The arguments that may be text: each selects one of a few ways to compute."""


@dataclass(frozen=True)
class Contraction:
    """Positions of the activation, the weight and the bias of a contraction that repair can fold constants into.
    `spatial`: channels come before the spatial axes, otherwise they are the last axis."""

    x: int
    weight: int
    bias: int | None = None
    spatial: bool = False


@dataclass(frozen=True)
class Operator:
    """Properties of one aten operator. Arguments are given by position in its schema."""

    name: str
    family: str
    lower: Lower | None = None
    """`lower(call, *arguments)` expresses an op call in primitives: it returns a node, a value or a list of them, or
    NotImplemented for a form that it does not support. Without it, calls with live operands become Opaque."""
    keeps_zero: bool = True
    """Whether a reduction of zeros is zero. Elementwise operators are run on zeros instead."""
    contracts: bool = False
    """Whether it computes sums of products by a weight."""
    uses_weights: bool = False
    """Whether its operands can be weights, of a contraction or a lookup."""
    shape_only: bool = False
    """Whether it uses only the shape of its operand."""
    decides: bool = False
    """Whether it gives Python a value, or a size, that depends on the input."""

    effect: Effect = "pure"
    """"pure" operators always return the same for the same arguments and do nothing else, so they may be evaluated.
    Random operators and assertions may be in a file, but are not evaluated."""
    folding: Folding | None = None
    """The origin of a result that is evaluated on constants; None: "elementwise" if torch marks it so."""
    fill: int | None = None
    """The value that it pads with: if that is not zero, it is more than data movement."""
    view_or_copy: bool = False
    """Whether it returns a view and copies only where it has to."""
    size_from_values: bool = False
    """Whether the size of its result depends on the values of its operands."""
    result_size: ResultSize | None = None
    """Upper bound on the elements of its results; None: found on the meta device."""
    steps: Steps = few_steps
    """Elementary steps that each element of the results takes."""
    most_evaluated: int | None = None
    """Number of elements up to which it is evaluated, if that is slow."""

    contraction: Contraction | None = None
    norm: Norm | None = None
    lookup: Lookup | None = None


def folding_of(target: torch._ops.OpOverload) -> Folding:
    """Return the folding of an operator whose row does not say it: torch itself marks elementwise operators."""
    return "elementwise" if torch.Tag.pointwise in target.tags else "mixes"


OPERATORS: dict[str, Operator] = {}
"""By name, or by name and overload. Filled by importing `ops`."""


class Define(Protocol):
    def __call__(self, *names: str, **facts: Any) -> Callable[[F], F]: ...


def family(name: str, **defaults: Any) -> Define:
    """Return a decorator that adds operators, lowered by the decorated function, to the table. `defaults` and `facts`
    are fields of Operator. Names are aten's: "relu" for all overloads and the in-place form, "max.dim" for one
    overload, "quantized::add" for another namespace."""

    def define(*names: str, **facts: Any) -> Callable[[F], F]:
        def add(function: F) -> F:
            for each in names:
                _add(Operator(each, name, function, **{**defaults, **facts}))
            return function

        return add

    return define


def evaluated(*names: str, **facts: Any) -> None:
    """Add operators that have no lowering function."""
    for name in names:
        _add(Operator(name, "evaluated", **facts))


def _add(operator: Operator) -> None:
    if operator.name in OPERATORS:
        raise ValueError(
            f"operator {operator.name} is defined twice: {OPERATORS[operator.name].family} and {operator.family}"
        )
    OPERATORS[operator.name] = operator


@cache
def find_operator(target: torch._ops.OpOverload) -> Operator | None:
    """Return the row of an operator: of its overload, its name, then of what it is the in-place or copying form of."""
    from effsparse_cli.formats.torch import ops  # noqa: F401  fills the table

    name, overload = target.overloadpacket.__name__, target._overloadname
    prefix = "" if target.namespace in ("aten", "prims") else f"{target.namespace}::"
    for form in (name, name.removesuffix("_"), name.removesuffix("_copy")):
        for key in (f"{prefix}{form}.{overload}", f"{prefix}{form}"):
            if key in OPERATORS:
                return OPERATORS[key]
    return None


@cache
def _names(effect: Effect) -> frozenset[str]:
    """Operators by name, all overloads included. A name that is random in one overload is pure in none."""
    from effsparse_cli.formats.torch import ops  # noqa: F401  fills the table

    rows = [row for row in OPERATORS.values() if row.effect == effect and "::" not in row.name]
    return frozenset(row.name.partition(".")[0] for row in rows) - (_names("random") if effect == "pure" else set())


@cache
def is_pure(target: torch._ops.OpOverload) -> bool:
    """Whether it always returns the same and does nothing else. An in-place form counts as its operator."""
    return _is_in(target, _names("pure"))


def is_random(target: torch._ops.OpOverload) -> bool:
    """Whether its results differ from run to run, at least in training mode."""
    return target.namespace == "aten" and target.overloadpacket.__name__.removesuffix("_") in _names("random")


@cache
def may_be_named(target: torch._ops.OpOverload) -> bool:
    """Whether a file's graph may call it: pure operators, random numbers and assertions."""
    return _is_in(target, _names("pure") | _names("random") | _names("asserts"))


def _is_in(target: torch._ops.OpOverload, names: Collection[str]) -> bool:
    name = target.overloadpacket.__name__
    forms = (name, name.removesuffix("_"), name.removesuffix("_copy"))
    writes_out = any(argument.is_out for argument in target._schema.arguments)
    return target.namespace in NAMESPACES and not writes_out and any(form in names for form in forms)
