"""The closed list of primitives that every network is lowered to.

A primitive defines which positions of its output depend on which positions of its inputs, and nothing else. A front
end never adds one: it writes a torch or ONNX operator as one or a few of these (`builder.py` and its sibling modules
have the common compositions).

To add a primitive: its class and the union here, a method in `builder.py`, its shape in `verify.py`, its forward and
backward rule in `paths/rules.py`, and its meaning in `tests/witnesses/expansion.py`, which the rule is tested against.

Every position of a value has one of three states: zero (always 0), constant (does not depend on the model's input) or
live. Sizes are concrete: a graph is valid for one set of input shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph

Shape = tuple[int, ...]
Bools = NDArray[np.bool_]
Ints = NDArray[np.integer[Any]]
Taps = Ints
"""[taps, out]: the input position that each tap of a window reads for each output position; -1 for padding."""


CallPath = tuple[str, ...]
"""Where an op call is in the user's file: the names of the op calls and attributes around it, then its own name."""
ViewerNode = tuple[str, str]
"""The names of a graph and of a node in it, by which Model Explorer identifies an op call."""


@dataclass(frozen=True, eq=False)
class Source:
    """A model input, live everywhere. In a Scan body: a state, a slice or an invariant."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant:
    """A literal, bias, shift or scale, constant where `nonzero` is True. An axis of size 1 is uniform."""

    nonzero: Bools


@dataclass(frozen=True, eq=False)
class Weight:
    """The connections of one stored tensor as one operator uses them. `layer` is a key of Graph.operands; `view`
    selects and arranges its elements in the node's shape; `call` is the op call that uses them."""

    layer: str
    view: View
    call: CallPath = ()


@dataclass(frozen=True, eq=False)
class View:
    """Which element of a stored tensor is where: strides as in numpy, counted in elements, or an array of flat
    positions where strides do not suffice (-1 for a literal zero). The default is the tensor as stored."""

    offset: int = 0
    strides: tuple[int, ...] | None = None
    index: Ints | None = None


@dataclass(frozen=True, eq=False)
class Contract:
    """A sum of products by a weight: linear, convolution, lookup. Inputs (x, Weight).

    x is [*batch, groups*C, *spatial], the weight [groups*N, C, *taps], the output [*batch, groups*N, *out]. `windows`
    has one table of taps per spatial axis, none for a linear layer; the tables contain strides, dilation, padding and
    transposition. `cache` is for passes: what follows from the tables.
    """

    windows: tuple[Taps, ...] = ()
    groups: int = 1
    cache: dict[object, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class Product:
    """A product of two activations: einsum in explicit form, one letter per axis, not repeated within an operand.
    Gates and batched matrix products are both this: "abc,abc->abc" multiplies elementwise. An axis of size 1
    broadcasts against the same letter of the other operand."""

    equation: str


@dataclass(frozen=True, eq=False)
class Join:
    """An elementwise function of any number of inputs, with broadcasting: add, max, relu, sigmoid. `keeps_zero` if
    the result is zero where all inputs are (add, relu, gelu; not sigmoid, exp, cos, ==)."""

    keeps_zero: bool = True


@dataclass(frozen=True, eq=False)
class Mix:
    """Along `axes`, everything depends on everything. The output has the input's shape (softmax, layer norm without
    its scale) or size 1 on `axes` (sum, mean, max)."""

    axes: tuple[int, ...]
    keeps_zero: bool = True


@dataclass(frozen=True, eq=False)
class Window:
    """Windows without weights: pooling, adaptive pooling, interpolation. One table of taps per axis, None for an
    unchanged axis; a window over several axes is the product of theirs."""

    taps: tuple[Taps | None, ...]


@dataclass(frozen=True, eq=False)
class Permute:
    """Axis i of the output is axis dims[i] of the input."""

    dims: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reshape:
    """The same elements in the same order, in the node's shape."""


@dataclass(frozen=True, eq=False)
class Expand:
    """Broadcast axes of size 1 to the node's shape (same number of axes)."""


@dataclass(frozen=True, eq=False)
class Take:
    """The positions `index` along one axis, -1 for a zero: slice, pad, gather, flip, roll, repeat."""

    axis: int
    index: Ints


@dataclass(frozen=True, eq=False)
class Concat:
    """The inputs concatenated along an axis."""

    axis: int


@dataclass(frozen=True, eq=False)
class Scan:
    """A body run once per step: recurrent layers, loops. Pick reads its results.

    Inputs are the initial states, the scanned sequences (step axis first) and the invariants. The body's sources are
    the states, one slice of each sequence and the invariants; its outputs are the new states and one slice of each
    result. The results of the Scan are the final states and the stacked slices (step axis first). `steps` None means
    any number of steps, that is the fixed point; such a Scan has no sequences and no slices.
    """

    body: Graph
    states: int
    scanned: int
    steps: int | None
    reverse: bool = False


@dataclass(frozen=True, eq=False)
class Pick:
    """Result `result` of a Scan."""

    result: int


@dataclass(frozen=True, eq=False)
class Opaque:
    """Any other operator: every output depends on every input, including weights. Sound, and reported."""

    label: str


Primitive = (
    Source | Constant | Weight | Contract | Product | Join | Mix | Window | Permute | Reshape | Expand | Take | Concat
    | Scan | Pick | Opaque
)  # fmt: skip
