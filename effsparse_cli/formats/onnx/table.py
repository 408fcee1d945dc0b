"""The lowering table: one entry per ONNX operator, filled by the modules in `ops/`. An entry says how the operator
is written in primitives, which ones, and what becomes of it when all of its inputs are constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from effsparse_cli.formats.onnx.values import Value

if TYPE_CHECKING:
    from effsparse_cli.formats.onnx.call import Call

Result = int | Value | Sequence[int | Value | None]
Lower = Callable[["Call"], Result]
Folding = Literal["value", "moves", "elementwise", "first", "never", "unfolded"]
"""How constants go through: "moves", "elementwise" and "first" (elementwise in the first input, the others are its
parameters) keep hold of the stored elements, "value" computes a new tensor. "never" asks the lowering itself (random
values, control flow, sequences). The others are "unfolded": only operators that say so are evaluated, those that are
pure and fast."""


@dataclass(frozen=True)
class Entry:
    lower: Lower
    primitive: str
    folding: Folding


TABLE: dict[tuple[str, str], Entry] = {}
MICROSOFT = "com.microsoft"
QONNX = "qonnx.custom_op.general"
ALIASES = {"ai.onnx": "", "finn.custom_op.general": QONNX, "onnx.brevitas": QONNX}
"""Other names of domains, older ones among them."""


class NotLoweredError(Exception):
    """An operator as this model uses it has no place among the primitives: the text says why. It becomes Opaque."""


class MisfitError(Exception):
    """Shapes do not fit together, so the input shape is not one that the model takes."""


def canonical(domain: str) -> str:
    """The name under which the table has a domain."""
    return ALIASES.get(domain, domain)


def lowers(*names: str, primitive: str, domain: str = "", folding: Folding = "unfolded") -> Callable[[Lower], Lower]:
    def register(lower: Lower) -> Lower:
        for name in names:
            if (domain, name) in TABLE:
                raise ValueError(f"{domain}.{name} has two lowerings")
            TABLE[domain, name] = Entry(lower, primitive, folding)
        return lower

    return register
