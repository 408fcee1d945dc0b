"""Changes to a model that a model file can write: masks and weights by layer, other tensors by name, new biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True, eq=False)
class NewBias:
    """A bias for an ONNX operator that has none.

    `output` is the name of the value to add the bias to, `values` has one element per channel. `instead` names the
    shared bias input that it replaces, if any.
    """

    output: str
    name: str
    values: NDArray[Any]
    instead: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """The differences between the model that was read and the one to write.

    `kept` holds masks by layer, in the layer's shape; pruned weights are written as zero. `weights` holds new values
    by layer. `tensors` holds new values of other stored tensors, by the model's name for them: arrays for ONNX,
    `torch.Tensor` otherwise. Whatever is not named stays as it is.
    """

    kept: Mapping[str, Bools] = field(default_factory=dict)
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tensors: Mapping[str, Any] = field(default_factory=dict)
    biases: tuple[NewBias, ...] = ()
