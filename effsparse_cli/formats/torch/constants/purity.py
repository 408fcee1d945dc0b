"""Which operators a model file may call, and which of them may be evaluated: only those that compute their results from
their arguments and do nothing else, as their rows say. Anything without a row is refused."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import torch

from effsparse_cli.formats.torch.operators import OPERATORS, Effect

NAMESPACES = ("aten", "prims")
TEXT_ARGUMENTS = {
    "approximate", "assert_msg", "driver", "equation", "indexing", "interpolation", "mode", "norm", "ord", "pad_mode",
    "padding", "reduce", "rounding_mode", "side", "UPLO",
}  # fmt: skip
"""The arguments that may be text: each selects one of a few ways to compute."""


@cache
def _names(effect: Effect) -> frozenset[str]:
    """Operators by name, all overloads included. A name that is random in one overload is pure in none."""
    from effsparse_cli.formats.torch import ops  # noqa: F401  fills the table

    rows = [row for row in OPERATORS.values() if row.effect == effect and "::" not in row.name]
    return frozenset(row.name.partition(".")[0] for row in rows) - (_names("random") if effect == "pure" else set())


@cache
def is_pure(target: torch._ops.OpOverload) -> bool:
    """Whether it returns the same for the same arguments and does nothing else. An in-place form counts as its
    operator."""
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
