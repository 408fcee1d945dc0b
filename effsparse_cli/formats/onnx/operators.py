"""The table of ONNX operators. One `Operator` states everything that the project knows about an operator: loading,
repair and compaction all read it here. The modules in `ops/` fill the table, each with one family of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from onnx import NodeProto

from effsparse_cli.formats.onnx.lowering.values import ConstantValue, Value
from effsparse_cli.formats.operands import Lookup, Norm

if TYPE_CHECKING:
    from effsparse_cli.formats.onnx.lowering.op_call import OpCall
    from effsparse_cli.formats.onnx.tensors.stored import Array

Result = int | Value | Sequence[int | Value | None]
Lower = Callable[["OpCall"], Result]
Extent = Sequence[int]
"""Sizes along the axes of a tensor."""

Constants = Literal["not evaluated", "computed", "moved", "split", "concatenated", "elementwise", "first", "lowered"]
"""How to handle an op call whose inputs are all constants:

- "not evaluated": it is lowered like any other. The default: only pure and fast operators are evaluated.
- "computed": the result is a new tensor.
- "moved", "split", "concatenated": the result has the stored elements of its inputs in other places.
- "elementwise", "first": the result has the stored elements of its largest (or its first) input with other values.
- "lowered": the lowering function itself decides (random values, control flow, sequences).
"""

MICROSOFT = "com.microsoft"
QONNX = "qonnx.custom_op.general"
ALIASES = {"ai.onnx": "", "finn.custom_op.general": QONNX, "onnx.brevitas": QONNX}
"""Other names of domains, and the name that the table has."""


class NotLoweredError(Exception):
    """An op call cannot be expressed in primitives, for the given reason. It becomes Opaque."""


class MisfitError(Exception):
    """Shapes do not fit together: the model does not accept the input shape."""


@dataclass(frozen=True)
class Contraction:
    """A contraction that repair can fold constants into: its weight, and its bias (None: a bias is an Add after it).
    Only calls with these `attributes`, which are the defaults, and a weight of this rank (None: any) can be."""

    weight: int = 1
    bias: int | None = 2
    channel_axis: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)
    weight_rank: int | None = None


@dataclass(frozen=True)
class Operator:
    """Properties of one operator. Inputs are given by position."""

    name: str
    domain: str
    lower: Lower
    primitives: str
    """Names of the primitives that it lowers to, for the documentation."""

    keeps_zero: bool | None = None
    """Whether zeros give zeros; None if that depends on attributes or other inputs."""
    extent: Callable[[OpCall], Extent] | None = None
    """Sizes of the result, for an operator whose result can be larger than its inputs."""
    indexed: bool = False
    """Whether its primitives hold one index per element, which takes more memory than anything else."""

    constants: Constants = "not evaluated"
    most_evaluated: int | None = None
    """Number of elements up to which it is evaluated, where that is slow."""
    multiplications: Callable[[OpCall], int] | None = None
    """Cost of evaluating it, where that is more than one operation per element."""
    evaluate: Callable[[NodeProto, Sequence[Array | None]], list[Array]] | None = None
    """Computes the outputs, for an operator that onnx's reference implementation does not have."""
    can_follow: Callable[[OpCall, ConstantValue], bool] | None = None
    """Whether this call keeps the stored elements of the given input, where `constants` alone does not say so."""
    condition: int | None = None
    """Input that selects between the others."""
    no_data: tuple[int, ...] = ()
    """Inputs that give only a type or a shape."""
    adds: bool = False
    """Whether it adds its inputs, so that each stored summand is a separate weight."""
    keeps_masks: bool = False
    """Whether weights that a mask sets to zero stay zero."""
    applies_masks: bool = False
    """Whether it masks a weight when another input consists of zeros and ones."""

    names_layers: bool = True
    """Whether an unnamed stored tensor is named after this operator."""
    roles: Mapping[int, str] = field(default_factory=dict)
    """Names of inputs, for an operator with several weights."""

    contraction: Contraction | None = None
    norm: Norm | None = None
    lookup: Lookup | None = None
    same_values: bool = False
    """Whether it passes on the numbers of its first input."""

    positions: str | None = None
    """How positions of inputs and outputs correspond: the name of a rule in compaction/onnx/rules. None: all of
    them stay."""
    neutral_zeros: tuple[int, ...] = ()
    """Inputs that change nothing where they are zero."""
    stays_in_file: bool = False
    """Whether compaction keeps it even if it is constant: it is random, or its result takes more space."""


OPERATORS: dict[tuple[str, str], Operator] = {}
"""By domain and name. Filled by importing `ops`."""


def operator(*names: str, domain: str = "", **facts: Any) -> Callable[[Lower], Lower]:
    """Add operators of these names, lowered by the decorated function, to the table. `facts` are fields of Operator."""

    def add(lower: Lower) -> Lower:
        for name in names:
            if (domain, name) in OPERATORS:
                raise ValueError(f"{domain}.{name} is already in the table")
            OPERATORS[domain, name] = Operator(name, domain, lower, **facts)
        return lower

    return add


def canonical(domain: str) -> str:
    """Return the name under which the table has a domain."""
    return ALIASES.get(domain, domain)


def find_operator(node: NodeProto) -> Operator | None:
    return OPERATORS.get((canonical(node.domain), node.op_type))
