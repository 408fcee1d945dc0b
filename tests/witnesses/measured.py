"""Measure a real torch network, with results under the names of torch's parameters."""

from __future__ import annotations

from torch import Tensor, nn

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.edges import Edges


def measure(model: nn.Module, example: Tensor) -> dict[str, Edges]:
    """Return the paths of each parameter; the layer of `fc.weight` is `fc`, also if pruned or parametrized."""
    found = find_paths(from_module(model, (example,), None, LoadOptions()))
    names = {}
    for name, _ in model.named_parameters():
        stored = name.replace(".parametrizations.weight.original", ".weight").removesuffix("_orig")
        names[stored.removesuffix(".weight")] = name
    return {names[name]: edges for name, edges in found.items()}
