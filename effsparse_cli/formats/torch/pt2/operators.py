"""Find the operators that an exported program names, from a list. Any other name becomes an UnknownOperator, which is
never run. Python's own arithmetic on sizes is computed here: on numbers only, and none can grow without bound."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.torch.operators import NAMESPACES, may_be_named

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
OPERATOR = re.compile(r"torch\.ops\.([a-z]+)\.((?:__)?[a-zA-Z]\w*|_[a-zA-Z]\w*)\.(\w+)")
NAME = re.compile(r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\.(_)?sym_\w+|#\w+:[\w.]+")
"""Names that torch.export gives to operators, known or not."""
HARMFUL = {
    "from_file", "_print", "_sparse_coo_tensor_unsafe", "_sparse_compressed_tensor_unsafe", "_sparse_csr_tensor_unsafe",
    "_sparse_csc_tensor_unsafe", "_sparse_bsr_tensor_unsafe", "_sparse_bsc_tensor_unsafe", "set_data", "record_stream",
    "_cufft_set_plan_cache_max_size", "_test_warn_in_autograd",
}  # fmt: skip
"""They access files, streams or memory, and would not be run, but a file that names one was made to do harm."""
TRANSPARENT = ("cond", "wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Higher-order operators that only run their subgraphs."""


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


class UnknownOperator:
    """An operator that is not on the list. Its schema is unknown, so it `may_write` to its operands, unless it is a
    higher-order operator: those return what changes."""

    def __init__(self, label: str, may_write: bool = True) -> None:
        self.__name__ = label
        self.may_write = may_write

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise LoadError(f"the model calls {self.__name__}, an operator that effsparse does not run from a file.")

    def __repr__(self) -> str:
        return self.__name__


def find_operator(name: str) -> Any:
    """Return an operator, a function of numbers, or an UnknownOperator."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.startswith("torch.ops.higher_order."):
        wanted = name.rpartition(".")[2]
        known = getattr(torch.ops.higher_order, wanted) if wanted in TRANSPARENT else None
        return known or UnknownOperator(_label(name), False)
    match = OPERATOR.fullmatch(name)
    if not NAME.fullmatch(name) or (match is not None and match[2] in HARMFUL):
        raise RefusedError(f"the program calls {name[:100]!r}, which no model needs. None of its code was run.")
    if match is None or match[1] not in NAMESPACES:
        return UnknownOperator(_label(name))
    packet = getattr(getattr(torch.ops, match[1]), match[2], None)
    if not isinstance(packet, torch._ops.OpOverloadPacket) or match[3] not in packet.overloads():  # type: ignore[no-untyped-call]
        return UnknownOperator(_label(name))
    found = getattr(packet, match[3])
    return found if isinstance(found, torch._ops.OpOverload) and may_be_named(found) else UnknownOperator(_label(name))


def _label(name: str) -> str:
    """Return the name for reports, in the style of known operators."""
    plain = name.removeprefix("torch.ops.").removeprefix("higher_order.").removesuffix(".default")
    return plain if len(plain) <= 80 else f"{plain[:77]}..."
