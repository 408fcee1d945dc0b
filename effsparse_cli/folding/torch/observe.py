"""Run a traced model and measure, at some operators, what the bias carriers of a layer alone add to the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.constant_ranges import ConstantRange, measure_range
from effsparse_cli.folding.torch.removable import select_elements
from effsparse_cli.folding.torch.run import Runner, placeholder_values
from effsparse_cli.folding.torch.wiring import WeightUse, Wiring, arguments
from effsparse_cli.formats.torch.tracing.preserve import unfused_kernels


@dataclass(frozen=True, eq=False)
class ObservedUse:
    """An operator to measure at, and the activity of the layer that it uses."""

    use: WeightUse
    activity: LayerActivity


class _Observer(Runner):
    """Measures before an operator runs, because later ones may overwrite its input."""

    def __init__(self, wiring: Wiring, observed: Sequence[ObservedUse]) -> None:
        super().__init__(wiring.traced)
        self.wiring = wiring
        self.observed = {each.use.node: each for each in observed}
        self.ranges: dict[fx.Node, ConstantRange] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n in self.observed:
            self.ranges[n] = self._measure(self.observed[n], self.map_nodes_to_values(arguments(n), n))
        return super().run_node(n)

    def _measure(self, observed: ObservedUse, values: Any) -> ConstantRange:
        use, activity = observed.use, observed.activity
        carriers = select_elements(self.wiring, use.leaf, use.weight, torch.from_numpy(activity.carrier)).double()
        x, weight = use.contraction.x, use.contraction.weight
        args = list(values)
        args[x], args[weight] = args[x].double(), carriers
        amount = use.run_without_bias(args)
        args[x], args[weight] = args[x].abs(), carriers.abs()
        magnitude = use.run_without_bias(args)
        return measure_range(amount.cpu().numpy(), magnitude.cpu().numpy(), use.channel_axis, activity.output)


def observe(
    wiring: Wiring, observed: Sequence[ObservedUse], inputs: Sequence[torch.Tensor]
) -> dict[fx.Node, ConstantRange]:
    """Run the model once on these inputs and return what was measured at each operator."""
    observer = _Observer(wiring, observed)
    with torch.no_grad(), unfused_kernels():
        observer.run(*placeholder_values(wiring.traced, inputs))
    return observer.ranges
