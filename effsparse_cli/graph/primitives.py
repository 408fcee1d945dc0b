"""The closed list of primitives that every network is lowered to.

A primitive says which positions of its output depend on which positions of its inputs, and nothing else.
A front end never adds one: it writes a torch or ONNX operator as one or a few of these (`builder.py` and
the modules beside it have the common compositions). `paths/` holds the one rule that each of them has.

Every value has three states per position: zero (always 0), constant (does not depend on the model's input)
and live. Sizes are concrete: a graph belongs to one input shape.
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
"""[taps, out]: the input position that each tap of a window reads for each output position; -1 reads nothing."""


@dataclass(frozen=True, eq=False)
class Source:
    """A model input: live everywhere. Inside a Scan body: a state or a slice."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant:
    """A literal, bias, shift or scale: `nonzero` tells zero from constant, an axis of size 1 is uniform."""

    nonzero: Bools


@dataclass(frozen=True, eq=False)
class Weight:
    """The connections of one stored tensor as one operator uses them: `layer` is a key of Graph.operands,
    `view` picks and arranges its elements in the node's shape."""

    layer: str
    view: View


@dataclass(frozen=True, eq=False)
class View:
    """Which elements of a stored tensor stand where: strided (as numpy strides, in elements) or, where
    strides cannot say it, an array of flat positions of the used shape (-1: a literal zero stands there)."""

    offset: int = 0
    strides: tuple[int, ...] | None = None
    index: Ints | None = None


@dataclass(frozen=True, eq=False)
class Contract:
    """x by a weight: linear, convolution, lookup. Inputs (x, Weight).

    x is [*batch, groups*C, *spatial], the weight [groups*N, C, *taps], the output [*batch, groups*N, *out];
    `windows` has one table of taps per spatial axis (none for a linear layer). Strides, dilation, padding
    and transposed convolution are all in the tables. `known` is for passes to remember what follows from them.
    """

    windows: tuple[Taps, ...] = ()
    groups: int = 1
    known: dict[object, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class Product:
    """Activation by activation: two-operand einsum in explicit form, one letter per axis, none repeated
    within an operand. Gates and batched products are both this: "abc,abc->abc" multiplies elementwise.
    An axis of size 1 broadcasts against the same letter of the other operand."""

    equation: str


@dataclass(frozen=True, eq=False)
class Join:
    """Elementwise over any number of inputs, broadcasting as numpy does: add, max, where, relu, sigmoid.
    `keeps_zero`: all inputs zero give zero (add, relu, gelu; not sigmoid, exp, cos, ==)."""

    keeps_zero: bool = True


@dataclass(frozen=True, eq=False)
class Mix:
    """Along `axes`, everything depends on everything. The output keeps the input's shape (softmax, layer
    norm without its scale) or has size 1 on `axes` (sum, mean, max)."""

    axes: tuple[int, ...]
    keeps_zero: bool = True


@dataclass(frozen=True, eq=False)
class Window:
    """Windows without weights: pooling, adaptive pooling, interpolation. One table of taps per axis, None
    for an axis that is left alone; the window of several axes is the product of theirs."""

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
    """Positions `index` along one axis; -1 puts a zero there. Slice, pad, gather, flip, roll, repeat,
    nearest interpolation."""

    axis: int
    index: Ints


@dataclass(frozen=True, eq=False)
class Concat:
    """Inputs one after another along an axis."""

    axis: int


@dataclass(frozen=True, eq=False)
class Scan:
    """A body run once per step: recurrent layers, loops. Read its results with Pick.

    Inputs are the initial states, then the scanned sequences (step axis first), then invariants. The
    body's sources are the states, one slice of each sequence, the invariants; its outputs the new states,
    then one slice of each result. The Scan's results are the final states, then the stacked slices (step
    axis first). `steps` None means any number of steps: the fixed point; it then scans and stacks nothing.
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
    """Anything else: every output depends on every input, weights among them. Sound, and reported."""

    label: str


Primitive = (
    Source
    | Constant
    | Weight
    | Contract
    | Product
    | Join
    | Mix
    | Window
    | Permute
    | Reshape
    | Expand
    | Take
    | Concat
    | Scan
    | Pick
    | Opaque
)
