"""Results of an analysis: plain numbers, one record per layer, for reports, checks and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import add
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, overload

if TYPE_CHECKING:
    from effsparse_cli.analysis.network import Network
    from effsparse_cli.analysis.pictures.picture import Picture
    from effsparse_cli.graph.primitives import Bools, Shape, ViewerNode


class Counts(NamedTuple):
    """Numbers of connections. kept = active + no_input + no_output + both + padding."""

    connections: int = 0
    kept: int = 0
    active: int = 0
    no_input: int = 0
    no_output: int = 0
    both: int = 0
    padding: int = 0
    bias_carriers: int = 0

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*map(add, self, other))

    @property
    def inactive(self) -> int:
        return self.kept - self.active

    @property
    def direct_sparsity(self) -> float:
        return 1 - self.kept / self.connections if self.connections else 0.0

    @property
    def effective_sparsity(self) -> float:
        return 1 - self.active / self.connections if self.connections else 0.0

    @property
    def direct_compression(self) -> float:
        return self.connections / self.kept if self.kept else float("inf")

    @property
    def effective_compression(self) -> float:
        return self.connections / self.active if self.active else float("inf")


class LayerResult(NamedTuple):
    """One weight tensor. `neurons` is the number of outputs of its operators, `dead_neurons` of those that no active
    connection reaches. `pattern` is that of its kept connections, if any: 2:4, 4x4 blocks. If costs were asked for,
    `multiply_adds` are those of the active connections, `bytes` the size of the tensor as stored, and `active_bytes` of
    its active weights alone; None if unknown."""

    name: str
    op: str
    shape: Shape
    counts: Counts
    neurons: int
    dead_neurons: int
    pattern: str = ""
    multiply_adds: int | None = None
    bytes: int | None = None
    active_bytes: int | None = None

    @property
    def direct_sparsity(self) -> float:
        return self.counts.direct_sparsity

    @property
    def effective_sparsity(self) -> float:
        return self.counts.effective_sparsity


class Layers(tuple[LayerResult, ...]):
    """Layers in execution order; `layers["conv1"]` is the layer of that name."""

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> LayerResult: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[LayerResult, ...]: ...
    def __getitem__(self, key: SupportsIndex | slice | str) -> LayerResult | tuple[LayerResult, ...]:
        if not isinstance(key, str):
            return super().__getitem__(key)
        for layer in self:
            if layer.name == key:
                return layer
        raise KeyError(f"{key!r} is not a layer of this model: {', '.join(layer.name for layer in self)}")


@dataclass(frozen=True)
class Analysis:
    """`layers` count in the totals; `apart` are embedding tables that do not. `cut` is the last place that a signal
    reaches in a disconnected network, `narrowest` the layer that would cut a connected one first. `unknown` lists
    operators taken as "every output depends on every input", `refilled` layers whose stored zeros prune nothing because
    what is computed from them is not zero. `network` and `pictures`, by layer, are there if they were asked for.
    `viewer_nodes` has the layers of each node that Model Explorer shows, None if it cannot show the model."""

    layers: Layers
    apart: tuple[LayerResult, ...] = ()
    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    disconnected: bool = False
    cut: str | None = None
    narrowest: str | None = None
    unknown: tuple[str, ...] = ()
    refilled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    engine: str = "bits"
    active_masks: Mapping[str, Bools] = field(default_factory=dict, repr=False)
    network: Network | None = field(default=None, repr=False)
    pictures: Mapping[str, Picture] = field(default_factory=dict, repr=False)
    viewer_nodes: Mapping[ViewerNode, tuple[str, ...]] | None = field(default=None, repr=False)

    @property
    def totals(self) -> Counts:
        return sum((layer.counts for layer in self.layers), Counts())

    @property
    def direct_sparsity(self) -> float:
        return self.totals.direct_sparsity

    @property
    def effective_sparsity(self) -> float:
        return self.totals.effective_sparsity

    def log_dict(self, prefix: str = "sparsity/", per_layer: bool = True) -> dict[str, float]:
        """Return the values for a logger such as W&B or TensorBoard.

        The keys are `sparsity/direct_sparsity` and `sparsity/effective_sparsity`. With `per_layer`, the key of a layer
        is that of the total, a slash and its name: `sparsity/effective_sparsity/conv1`.
        """
        measured = {"": self.totals} | {f"/{layer.name}": layer.counts for layer in self.layers if per_layer}
        return {
            f"{prefix}{kind}{name}": getattr(counts, kind)
            for name, counts in measured.items()
            for kind in ("direct_sparsity", "effective_sparsity")
        }
