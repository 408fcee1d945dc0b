"""Find the operators that an exported program names, from a list. Any other name becomes an UnknownOperator, which is
never run."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import torch

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.torch.constants.purity import NAMESPACES, may_be_named
from effsparse_cli.formats.torch.constants.size_arithmetic import FUNCTIONS

OPERATOR = re.compile(r"torch\.ops\.([a-z]+)\.((?:__)?[a-zA-Z]\w*|_[a-zA-Z]\w*)\.(\w+)")
NAME = re.compile(r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\.(_)?sym_\w+|#\w+:[\w.]+")
"""Names that torch.export gives to operators, known or not."""
HARMFUL = {
    "from_file", "_print", "_sparse_coo_tensor_unsafe", "_sparse_compressed_tensor_unsafe", "_sparse_csr_tensor_unsafe",
    "_sparse_csc_tensor_unsafe", "_sparse_bsr_tensor_unsafe", "_sparse_bsc_tensor_unsafe", "set_data", "record_stream",
    "_cufft_set_plan_cache_max_size", "_test_warn_in_autograd",
}  # fmt: skip
"""Operators that access files, streams or memory outside tensors. They would not be run, but a file that names one was
made to do harm."""
TRANSPARENT = ("cond", "wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Higher-order operators that only run their subgraphs."""


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
        return (
            getattr(torch.ops.higher_order, wanted) if wanted in TRANSPARENT else UnknownOperator(_label(name), False)
        )
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
