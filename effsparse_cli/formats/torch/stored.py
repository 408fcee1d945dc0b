"""The tensors that a model stores, under the user's own names: which of them share memory, their names in a report, and
the Layer of each that an operator uses as a weight."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.formats.masks.conventions import TORCH_PRUNE, is_mask_name
from effsparse_cli.formats.masks.live import find_live_parameter
from effsparse_cli.formats.torch.constants import index_maps
from effsparse_cli.formats.torch.constants.evaluate import Budget
from effsparse_cli.formats.torch.tensors import is_finite, kept_by_value, nonzero, numbers
from effsparse_cli.formats.torch.values import ConstantValue, Keep, Leaf, Part
from effsparse_cli.graph.graph import Graph, Layer, MixedWeight, Note
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.graph.stored_numbers import FiniteCheck, StoredNumbers, describe_nonfinite

WEIGHT_NORM = re.compile(r"^(?:(.*)\.)?parametrizations\.([^.]+)\.original[01]$")


@dataclass
class WeightUses:
    """All uses of a stored tensor as a weight: the operators, and what is kept of it in each use."""

    ops: list[str] = field(default_factory=list)
    keeps: list[Keep] = field(default_factory=list)

    def kept(self) -> Bools:
        """Return what is kept in any use: a layer has only one mask."""
        kept: Bools = np.logical_or.reduce([keep() for keep in self.keeps])
        return kept


@dataclass(frozen=True)
class MixedConstant:
    """A mixed weight, computed from `parts` of stored tensors by `graph`; `values` returns its numbers."""

    graph: Graph
    parts: tuple[Part, ...]
    values: Callable[[], NDArray[Any]]


class StoredTensors:
    """A model's stored tensors (its state_dict), and how they are used while lowering."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], parameters: set[str]) -> None:
        self.tensors = dict(tensors)
        self.parameters = parameters
        self.device = next((tensor.device for tensor in self.tensors.values()), torch.device("cpu"))
        self.owners = _owners(self.tensors)
        self.storages = {_storage(t) for t in self.tensors.values()}
        self.budget = Budget(sum({_storage(t): _bytes(t) for t in self.tensors.values()}.values()))
        self.touched: set[str] = set()
        self.masked: set[str] = set()
        self.mixed_weights: dict[str, MixedConstant] = {}
        self.uses: dict[str, WeightUses] = {}
        self._kept_by_value: dict[str, Keep] = {}
        self._finite_checks: dict[str, FiniteCheck] = {}

    def constant(self, name: str) -> ConstantValue:
        """Return a stored tensor as a constant value."""
        tensor = self.tensors[name].detach()
        owner, index_map = self.owners[name]
        self.touched.add(owner)
        keep = self._kept_by_value.setdefault(owner, kept_by_value(self.tensors[owner]))
        recipe = Leaf(owner, index_map) if tensor.is_floating_point() or tensor.is_complex() else None
        return ConstantValue(tensor, lambda: tensor, (Part(owner, index_map, keep),), recipe=recipe)

    def owns(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor shares memory with one that the model stores or holds, so that it must not be written to."""
        return _storage(tensor) in self.storages

    def held(self, name: str, tensor: torch.Tensor) -> ConstantValue:
        """Return a tensor that the model holds but does not store as a constant value. Attention reads its output
        projection without the hook of torch.nn.utils.prune: it gets the masked weight that the hook computed last."""
        detached = tensor.detach()
        self.storages.add(_storage(detached))
        parts: tuple[Part, ...] = ()
        original, mask = TORCH_PRUNE.weight_name(name), TORCH_PRUNE.mask_name(name)
        if original in self.tensors and mask in self.tensors and self.tensors[mask].shape == tensor.shape:
            owner, index_map = self.owners[original]
            self.touched |= {owner, mask}
            parts = (Part(owner, index_map, partial(nonzero, self.tensors[mask]), masked=True),)
        return ConstantValue(detached, lambda: detached, parts, recipe=Leaf(*self.owners[original]) if parts else None)

    def mix(self, value: ConstantValue, graph: Graph, parts: Sequence[Part]) -> ConstantValue:
        """Return a constant as a mixed weight that `graph` computes from `parts`."""
        shape, compute = value.tensor.shape, value.compute
        name = f"mixture {len(self.mixed_weights)}"
        self.tensors[name] = torch.empty(shape, device="meta")
        self.mixed_weights[name] = MixedConstant(graph, tuple(parts), lambda: numbers(compute()))
        part = Part(name, index_maps.new_map(shape), lambda: nonzero(compute()))
        return ConstantValue(value.tensor, compute, (part,))

    def weights_in(self, value: ConstantValue) -> list[Part]:
        """Return the stored tensors in a mixed constant that count as weights: matrices, parameters if there are any.
        Vectors such as the gains of weight norm are not connections, unless there is nothing else."""
        named = {p.stored: p for p in (*value.parts, *value.mixed)}
        named.update({p.stored: p for p in (*value.parts, *value.mixed) if p.masked})
        matrices = [p for p in named.values() if sum(n > 1 for n in self.tensors[p.stored].shape) > 1]
        learned = [p for p in matrices if p.stored in self.parameters] or matrices
        own = {p.stored for p in value.parts}
        largest = max(named.values(), key=lambda p: self.tensors[p.stored].numel()).stored
        return [p for p in named.values() if p in learned or p.stored in own or (not learned and p.stored == largest)]

    def layer(self, part: Part, op: str) -> Layer:
        """Note a use of a stored tensor, or of each one in a mixed weight, and return its layer."""
        for source in self.mixed_weights[part.stored].parts if part.stored in self.mixed_weights else ():
            self.layer(source, op)
        use = self.uses.setdefault(part.stored, WeightUses())
        if op not in use.ops:
            use.ops.append(op)
        if part.keep not in use.keeps:
            use.keeps.append(part.keep)
        if part.masked:
            self.masked.add(part.stored)
        return self._layer(part.stored, use)

    def layers(self) -> dict[str, Layer]:
        """Return all layers by name, in the order of first use. A table that is also contracted is a weight."""
        made = [self._layer(name, use) for name, use in self.uses.items() if name not in self.mixed_weights]
        return {layer.name: layer for layer in made}

    def graph_mixed_weights(self) -> dict[str, MixedWeight]:
        """Return the mixed weights that operators use."""
        used = {name: mixed for name, mixed in self.mixed_weights.items() if name in self.uses}
        return {name: MixedWeight(self._layer(name, self.uses[name]), mixed.graph) for name, mixed in used.items()}

    def _layer(self, stored: str, use: WeightUses) -> Layer:
        others = [op for op in use.ops if op != "embedding"]
        tensor = self.tensors[stored]
        return Layer(
            name=self.label(stored),
            op=(others or use.ops)[0],
            shape=tuple(tensor.shape),
            kept=use.keeps[0] if len(use.keeps) == 1 else use.kept,
            embedding=not others,
            values=self.mixed_weights[stored].values if stored in self.mixed_weights else partial(numbers, tensor),
            masked=stored in self.masked,
            finite=self._finite_check(stored) if _may_be_nonfinite(tensor) else None,
            parameter=self.parameter(stored),
            itemsize=tensor.element_size(),
        )

    def label(self, stored: str) -> str:
        """Return `fc1` for `fc1.weight`, however it is wrapped, and the tensor's own name otherwise."""
        return self.parameter(stored).removesuffix(".weight")

    def parameter(self, stored: str) -> str:
        """Return `fc1.weight`, however it is wrapped, unless another tensor has that name."""
        name = _unwrapped_name(stored, self.tensors)
        return stored if name in self.tensors else name

    def notes(self) -> list[Note]:
        """Return notes about the weights for the report."""
        notes: list[Note] = []
        if self.masked:
            layers = len(self.uses.keys() - self.mixed_weights.keys())
            notes.append(f"masks are applied to {len(self.masked)} of {layers} weight tensors")
        floats = [name for name in self.uses if _may_be_nonfinite(self.tensors[name])]
        checks = [(self.label(name), self._finite_check(name)) for name in floats]
        return [*notes, partial(describe_nonfinite, checks)]

    def _finite_check(self, name: str) -> FiniteCheck:
        """The check that packing the tensor answers, where its own numbers decide what is kept."""
        if name not in self._finite_checks:
            keep = self._kept_by_value.get(name)
            check = keep.finite if isinstance(keep, StoredNumbers) else None
            self._finite_checks[name] = check or FiniteCheck(partial(is_finite, self.tensors[name].detach()))
        return self._finite_checks[name]

    def unused(self) -> list[str]:
        """Return the labels of stored tensors that look like weights and that nothing reads."""
        return [self.label(name) for name in self.untouched()]

    def untouched(self) -> list[str]:
        unread = {owner for owner, _ in self.owners.values()} - self.touched
        return [
            name
            for name, tensor in self.tensors.items()
            if name in unread and tensor.ndim >= 2 and tensor.is_floating_point()
            if not (name.endswith("mask") or is_mask_name(name)) and "bias" not in name.rsplit(".", 1)[-1]
        ]


def _unwrapped_name(name: str, names: Mapping[str, object]) -> str:
    """Return the name of a tensor before pruning hooks, parametrizations or weight norm wrapped it."""
    masked = find_live_parameter(name)
    if masked is not None:
        return masked
    wrapped = WEIGHT_NORM.match(name)
    if wrapped:
        return ".".join(part for part in wrapped.groups() if part)
    if name.endswith("_v") and f"{name[:-2]}_g" in names:
        return name[:-2]
    return name


def _may_be_nonfinite(tensor: torch.Tensor) -> bool:
    return not tensor.is_meta and tensor.is_floating_point() and tensor.layout == torch.strided


def _storage(tensor: torch.Tensor) -> object:
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() if tensor.layout == torch.strided else 0


def _owners(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[str, torch.Tensor]]:
    """Return for each stored tensor the first that has all its elements (itself, unless tied), and its index map."""
    owners: dict[str, tuple[str, torch.Tensor]] = {}
    by_storage: dict[object, list[str]] = {}
    for name, tensor in tensors.items():
        group = by_storage.setdefault(_storage(tensor), [])
        tied = next(((other, m) for other in group if (m := _index_map(tensors[other], tensor)) is not None), None)
        owners[name] = tied or (name, index_maps.new_map(tensor.shape))
        if tied is None:
            group.append(name)
    return owners


def _index_map(owner: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the index map of a tensor into another one, None if it is not a view of it."""
    if owner is tensor:
        return index_maps.new_map(owner.shape)
    if owner.layout != torch.strided or tensor.layout != torch.strided or owner.dtype != tensor.dtype:
        return None
    start = int(tensor.storage_offset()) - int(owner.storage_offset())
    if start == 0 and owner.shape == tensor.shape and owner.stride() == tensor.stride():
        return index_maps.new_map(owner.shape)
    span = start + 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if owner.is_contiguous() and start >= 0 and span <= owner.numel() and tensor.numel():
        return index_maps.new_map(tensor.shape, start, tensor.stride())
    return None
