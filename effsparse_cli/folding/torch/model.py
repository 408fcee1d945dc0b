"""A PyTorch model that repair changes in place: its trace, the tensors that it holds, and the biases of its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.decide import INPUT_SEEDS, BiasSlot, Floats, MeasuredUse, merge_ranges
from effsparse_cli.folding.rounds import Round
from effsparse_cli.folding.torch.bias_slots import find_following_norm, find_slot
from effsparse_cli.folding.torch.contributions import observe, why_fixed
from effsparse_cli.folding.torch.run import draw, table_sizes, unknown_operators
from effsparse_cli.folding.torch.wiring import WeightUse, Wiring, find_weight_uses
from effsparse_cli.folding.unread import ChannelParameters, find_unread
from effsparse_cli.folding.verify import Outputs
from effsparse_cli.formats.masks.live import find_mask, refresh_pruned
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import Changes
from effsparse_cli.formats.torch import lower_live
from effsparse_cli.formats.torch.lowering.lower import lower_traced
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tensors import numbers
from effsparse_cli.formats.torch.tracing.trace import TracedModel
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools


@dataclass(eq=False)
class TorchModel:
    """`run` returns the selected outputs for inputs like the `examples`. `model` and `retrace` are set for a live
    module, which can get biases. `before` holds the original values of changed tensors, `added` the names of new
    biases."""

    traced: TracedModel
    options: LoadOptions
    examples: Sequence[torch.Tensor]
    run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
    model: nn.Module | None = None
    retrace: Callable[[], TracedModel] | None = None
    notes: Sequence[str] = ()
    add_biases: bool = True
    before: dict[str, torch.Tensor] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wiring = Wiring(self.traced)
        self.limits = table_sizes(self.traced)

    @property
    def epsilon(self) -> float:
        types = [t.dtype for t in self.traced.stored.values() if t.is_floating_point() and t.dtype.itemsize > 1]
        return max((torch.finfo(dtype).eps for dtype in types), default=torch.finfo(torch.float32).eps)

    @property
    def not_run(self) -> tuple[str, ...]:
        return unknown_operators(self.traced)

    @property
    def partly_run(self) -> bool:
        return False

    def graph(self) -> Graph:
        if self.model is not None:
            return lower_live(self.traced, self.model, self.options, self.notes)
        return lower_traced(self.traced, self.options, self.notes)

    def outputs(self, seed: int) -> Outputs:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return [numbers(tensor) for tensor in self.run(draw(self.examples, self.limits, seed))]

    def why_fixed(self, activity: LayerActivity) -> str:
        return why_fixed(self.wiring, self.wiring.layer_leaves.get(activity.layer.name, []), activity)

    def measure(self, activity: Mapping[str, LayerActivity]) -> dict[str, list[MeasuredUse]]:
        # No constant after an operator that cannot be run is known.
        uses = {} if self.not_run else self._weight_uses(activity)
        observed = {use: activity[name] for name, some in uses.items() for use in some}
        if not observed:
            return {}
        model = self.model if self.add_biases else None
        runs = [observe(self.wiring, observed, draw(self.examples, self.limits, seed)) for seed in INPUT_SEEDS]
        return {
            name: [
                MeasuredUse(merge_ranges([run[use.node] for run in runs]), *find_slot(self.wiring, use, some, model))
                for use in some
            ]
            for name, some in uses.items()
        }

    def find_unread(self, activity: Mapping[str, LayerActivity]) -> dict[str, Bools]:
        return find_unread(self._parameters(activity), lambda name: numbers(self.traced.stored[name]))

    def _parameters(self, activity: Mapping[str, LayerActivity]) -> Iterator[ChannelParameters]:
        wiring, leaves = self.wiring, self.wiring.leaves
        for name, uses in self._weight_uses(activity).items():
            output, use = activity[name].output, uses[0]
            if output is None or len(uses) != 1 or output.shape != tuple(use.node.meta["val"].shape):
                continue
            if not output.dead.any():
                continue
            bias = find_slot(wiring, use, uses, None)[0] if use.bias is not None else None
            norm = find_following_norm(wiring, use)
            nodes = [leaf for leaf in (norm.scale, norm.shift, norm.mean) if leaf is not None] if norm else []
            if norm is None or any(leaf not in leaves for leaf in nodes):
                yield ChannelParameters(output, bias)
                continue
            own = tuple(leaves[leaf] for leaf in nodes if wiring.only_used_by(leaf, [norm.node]))
            yield ChannelParameters(output, bias, leaves[norm.scale] if norm.scale is not None else None, own)

    def _weight_uses(self, activity: Mapping[str, LayerActivity]) -> dict[str, list[WeightUse]]:
        """Return the contractions of layers whose uses are all known."""
        layers = {}
        for name, leaves in self.wiring.layer_leaves.items():
            if name not in activity:
                continue
            by_leaf = [find_weight_uses(self.wiring, leaf) for leaf in leaves]
            uses = [use for some, _, _ in by_leaf for use in some]
            lookups = sum(number for _, number, _ in by_leaf)
            complete = all(complete for _, _, complete in by_leaf)
            if uses and complete and len(uses) + lookups == len(activity[name].uses):
                layers[name] = uses
        return layers

    def apply(self, changes: Round) -> None:
        stored = self.traced.stored
        with torch.no_grad():
            for name, tensor in _changed_tensors(stored, changes, self.wiring.stored).items():
                self.before.setdefault(name, stored[name].detach().clone())
                stored[name].copy_(tensor)
        biases = [(slot, amount) for slot, amount in changes.amounts if slot.new]
        if self.model is not None and self.retrace is not None:
            refresh_pruned(self.model, in_place=True)
            self.added += add_biases(self.model, biases)
            if biases:
                self.traced = self.retrace()
                self.wiring = Wiring(self.traced)

    def guard(self) -> AbstractContextManager[None]:
        return nullcontext()

    def changes(self, masks: Mapping[str, Bools]) -> Changes:
        """Return changed tensors, none for a pickled module, which is written as it is in memory."""
        if self.add_biases and self.model is not None:
            return Changes()
        changed = {name: self.traced.stored[name].detach() for name in self.before}
        layers = {name: self.wiring.stored.label(name) for name in changed}
        return Changes(
            kept={layer: masks[layer] for layer in layers.values() if layer in masks},
            tensors={name: tensor for name, tensor in changed.items() if layers[name] not in masks},
        )

    def undo(self) -> None:
        """Restore the model."""
        with torch.no_grad():
            for name, tensor in self.before.items():
                if name not in self.added:
                    self.traced.stored[name].copy_(tensor)
        if self.model is not None:
            _remove_biases(self.model, self.added)
            refresh_pruned(self.model, in_place=True)


def _changed_tensors(
    tensors: Mapping[str, torch.Tensor], changes: Round, stored: StoredTensors
) -> dict[str, torch.Tensor]:
    """Return the new tensors of a round by stored name. The mask of a weight is changed with it."""
    new: dict[str, torch.Tensor] = {}
    names = {stored.label(name): name for name, (owner, _) in reversed(stored.owners.items()) if owner == name}
    for layer, kept in changes.kept.items():
        name, mask = names[layer], torch.from_numpy(kept.copy())
        tensor = tensors[name].detach()
        new[name] = torch.where(mask.to(tensor.device), tensor, torch.zeros_like(tensor))
        stored_mask = find_mask(name, tensors)
        if stored_mask is not None:
            new[stored_mask] = mask.to(tensors[stored_mask].dtype)
    for slot, amount in changes.amounts:
        if not slot.new:
            flat = new.get(slot.name, tensors[slot.name].detach()).double().reshape(-1).clone()
            flat[torch.from_numpy(slot.index)] += slot.sign * torch.from_numpy(np.ascontiguousarray(amount)).to(flat)
            new[slot.name] = flat.reshape(tensors[slot.name].shape)
    for name, where in changes.zeroed.items():
        value = new.get(name, tensors[name].detach())
        new[name] = torch.where(torch.from_numpy(where).to(value.device), torch.zeros_like(value), value)
    return new


def add_biases(model: nn.Module, biases: Sequence[tuple[BiasSlot, Floats]]) -> list[str]:
    """Add biases to modules that have none, in place; return their names."""
    for slot, amount in biases:
        path, _, name = slot.name.rpartition(".")
        module = model.get_submodule(path)
        weight = next(module.parameters(recurse=False))
        values = torch.from_numpy(np.ascontiguousarray(amount)).to(dtype=weight.dtype, device=weight.device)
        old = getattr(module, name)
        values = values if old is None else values + old.detach()
        setattr(module, name, nn.Parameter(values, requires_grad=weight.requires_grad))
    return [slot.name for slot, _ in biases]


def _remove_biases(model: nn.Module, names: Sequence[str]) -> None:
    for name in names:
        path, _, own = name.rpartition(".")
        setattr(model.get_submodule(path), own, None)
