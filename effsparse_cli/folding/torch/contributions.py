"""What connections of a PyTorch model contribute: whether they can be removed by setting one stored number to zero,
which they cannot if the weight is computed in a way that mixes stored numbers, and what bias carriers add to the output
of an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from effsparse_cli.errors import LoadError
from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.decide import ConstantRange, measure_range
from effsparse_cli.folding.torch.run import Runner, placeholder_values
from effsparse_cli.folding.torch.wiring import WeightUse, Wiring, arguments
from effsparse_cli.formats.torch.tracing.preserve import unfused_kernels

COMPUTED = "the weight is computed from stored tensors, so one connection changes others"
CODED = "the weight is stored in a sparse or quantised form"


def why_fixed(wiring: Wiring, leaves: Sequence[fx.Node], activity: LayerActivity) -> str:
    """Return why no connection of a layer can be removed, "" if they can; `leaves` are its placeholders."""
    tensors = [wiring.traced.stored[wiring.leaves[leaf]] for leaf in leaves]
    if any(tensor.layout != torch.strided or tensor.is_quantized for tensor in tensors):
        return CODED
    whole = bool(tensors) and all(tuple(tensor.shape) == activity.layer.shape for tensor in tensors)
    return "" if whole and all(_is_sum_of_parts(wiring, leaf, activity) for leaf in leaves) else COMPUTED


def _is_sum_of_parts(wiring: Wiring, leaf: fx.Node, activity: LayerActivity) -> bool:
    """Whether what operators read is the sum of what active and inactive connections contribute separately."""
    active = torch.from_numpy(activity.active)
    for weight in {read for _, read in wiring.uses(leaf) if read is not leaf}:
        try:
            parts = [_select_elements(wiring, leaf, weight, mask) for mask in (active, ~active)]
            if not torch.equal(parts[0] + parts[1], wiring.evaluate(weight, {})):
                return False
        except (LoadError, NotImplementedError, RuntimeError, TypeError):
            return False
    return True


def _select_elements(wiring: Wiring, leaf: fx.Node, weight: fx.Node, chosen: torch.Tensor) -> torch.Tensor:
    """Evaluate a weight with all but the chosen elements of its stored tensor at zero."""
    tensor = wiring.evaluate(leaf, {})
    only = torch.where(chosen.to(tensor.device), tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
    return wiring.evaluate(weight, {leaf: only})


class _Observer(Runner):
    """Measures before an operator runs, because later ones may overwrite its input."""

    def __init__(self, wiring: Wiring, observed: Mapping[WeightUse, LayerActivity]) -> None:
        super().__init__(wiring.traced)
        self.wiring = wiring
        self.observed = {use.node: (use, activity) for use, activity in observed.items()}
        self.ranges: dict[fx.Node, ConstantRange] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n in self.observed:
            self.ranges[n] = self._measure(*self.observed[n], self.map_nodes_to_values(arguments(n), n))
        return super().run_node(n)

    def _measure(self, use: WeightUse, activity: LayerActivity, values: Any) -> ConstantRange:
        carriers = _select_elements(self.wiring, use.leaf, use.weight, torch.from_numpy(activity.carrier)).double()
        x, weight = use.contraction.x, use.contraction.weight
        args = list(values)
        args[x], args[weight] = args[x].double(), carriers
        amount = use.run_without_bias(args)
        args[x], args[weight] = args[x].abs(), carriers.abs()
        magnitude = use.run_without_bias(args)
        return measure_range(amount.cpu().numpy(), magnitude.cpu().numpy(), use.channel_axis, activity.output)


def observe(
    wiring: Wiring, observed: Mapping[WeightUse, LayerActivity], inputs: Sequence[torch.Tensor]
) -> dict[fx.Node, ConstantRange]:
    """Run the model once on these inputs and return what bias carriers add at each of these operators."""
    observer = _Observer(wiring, observed)
    with torch.no_grad(), unfused_kernels():
        observer.run(*placeholder_values(wiring.traced, inputs))
    return observer.ranges
