"""Python's own arithmetic on sizes, as traced graphs call it: on numbers only, and none can grow without bound."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from effsparse_cli.errors import LoadError

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f"_operator.{function.__name__}": function
        for function in (
            operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod, operator.pow,
            operator.neg, operator.pos, operator.eq, operator.ne, operator.le, operator.ge, operator.lt, operator.gt,
            operator.and_, operator.or_, operator.lshift, operator.rshift, operator.getitem,
        )
    },
    "math.trunc": math.trunc,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    **{
        f"torch.{function.__name__}": function
        for function in (torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_not, torch.sym_ite)
    },
}  # fmt: skip
LARGEST = 1 << 64
FAST_GROWING = (operator.pow, operator.lshift)
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def calculate(target: Any, args: Sequence[Any]) -> Any:
    """Compute with numbers and symbolic sizes, or pick one of the results of an operator."""
    if target is operator.getitem and isinstance(args[0], list | tuple):
        return args[0][args[1]]
    if target not in FUNCTIONS.values():
        raise LoadError(f"the traced model calls {target}, which is not an operator; export the model to ONNX instead")
    if any(isinstance(arg, SYMBOLIC) for arg in args):
        return target(*args)
    if not all(isinstance(arg, int | float) and not abs(arg) > LARGEST for arg in args):
        raise LoadError(f"the traced model calls {target.__name__} on something that is not a size")
    if target in FAST_GROWING and not abs(args[1]) <= 64:
        raise LoadError("the traced model computes a size that is too large")
    try:
        return target(*args)
    except ArithmeticError as error:
        raise LoadError(f"the traced model computes an invalid size ({error})") from error
