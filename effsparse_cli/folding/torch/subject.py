"""A PyTorch model under repair: its trace, and the tensors that it holds, which are changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import nn

from effsparse_cli.folding.carriers import Facts
from effsparse_cli.folding.decide import Measured
from effsparse_cli.folding.rounds import Round
from effsparse_cli.folding.torch.change import add_biases, changed, remove_biases
from effsparse_cli.folding.torch.dead import find_unread
from effsparse_cli.folding.torch.homes import find_home
from effsparse_cli.folding.torch.observe import Watched, draw, observe, table_sizes, unknown_operators
from effsparse_cli.folding.torch.operators import Site, Wiring, find_sites
from effsparse_cli.folding.torch.removable import why_fixed
from effsparse_cli.folding.uniform import union
from effsparse_cli.folding.verify import Outputs
from effsparse_cli.formats.changes import Changes
from effsparse_cli.formats.masks.live import refresh_pruned
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import lower_live
from effsparse_cli.formats.torch.lowering.lower import lower_traced
from effsparse_cli.formats.torch.tensors import numbers
from effsparse_cli.formats.torch.tracing.trace import TracedModel
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools

INPUT_SEEDS = (11, 12)
"""Two inputs: what differs between them is no constant."""


@dataclass(eq=False)
class TorchModel:
    """`run` gives the outputs that count for drawn inputs. `model` and `retrace` are there for a live module, which
    can get biases; `before` holds what was changed as it was."""

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

    def fixed(self, facts: Mapping[str, Facts]) -> dict[str, str]:
        leaves = self.wiring.layer_leaves(facts)
        reasons = {name: why_fixed(self.wiring, leaves.get(name, []), each) for name, each in facts.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def measure(self, facts: Mapping[str, Facts]) -> dict[str, list[Measured]]:
        # What an unknown operator computes is not known, so that no constant behind one can be folded.
        sites = {} if self.not_run else self._sites(facts)
        watched = [
            Watched(site, facts[name].carrier, facts[name].target) for name, some in sites.items() for site in some
        ]
        if not watched:
            return {}
        model = self.model if self.add_biases else None
        runs = [observe(self.wiring, watched, draw(self.examples, self.limits, seed)) for seed in INPUT_SEEDS]
        return {
            name: [
                Measured(union([run[site.node] for run in runs]), *find_home(self.wiring, site, some, model))
                for site in some
            ]
            for name, some in sites.items()
        }

    def unread(self, facts: Mapping[str, Facts]) -> dict[str, Bools]:
        return find_unread(self.wiring, facts, self._sites(facts))

    def _sites(self, facts: Mapping[str, Facts]) -> dict[str, list[Site]]:
        """Of layers all of whose uses are known operators."""
        found = {}
        for name, leaves in self.wiring.layer_leaves(facts).items():
            looked = [find_sites(self.wiring, leaf) for leaf in leaves]
            sites = [site for some, _, _ in looked for site in some]
            lookups = sum(number for _, number, _ in looked)
            if sites and all(known for _, _, known in looked) and len(sites) + lookups == len(facts[name].uses):
                found[name] = sites
        return found

    def change(self, changes: Round) -> None:
        stored = self.traced.stored
        with torch.no_grad():
            for name, tensor in changed(stored, changes, self.wiring.stored).items():
                self.before.setdefault(name, stored[name].detach().clone())
                stored[name].copy_(tensor)
        biases = [(home, amount) for home, amount in changes.amounts if home.new]
        if self.model is not None and self.retrace is not None:
            refresh_pruned(self.model, in_place=True)
            self.added += add_biases(self.model, biases)
            if biases:
                self.traced = self.retrace()
                self.wiring = Wiring(self.traced)

    def guard(self) -> AbstractContextManager[None]:
        return nullcontext()

    def changes(self, masks: Mapping[str, Bools]) -> Changes:
        """A module that is stored whole has changed itself."""
        if self.add_biases and self.model is not None:
            return Changes()
        changed = {name: self.traced.stored[name].detach() for name in self.before}
        layers = {name: self.wiring.stored.label(name) for name in changed}
        return Changes(
            kept={layer: masks[layer] for layer in layers.values() if layer in masks},
            tensors={name: tensor for name, tensor in changed.items() if layers[name] not in masks},
        )

    def undo(self) -> None:
        """Everything as it was."""
        with torch.no_grad():
            for name, tensor in self.before.items():
                if name not in self.added:
                    self.traced.stored[name].copy_(tensor)
        if self.model is not None:
            remove_biases(self.model, self.added)
            refresh_pruned(self.model, in_place=True)
