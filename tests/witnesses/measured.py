"""A real torch network in, what the engine says of its connections out, under the names that torch gives its
parameters."""

from __future__ import annotations

from torch import Tensor, nn

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.edges import Edges


def measure(model: nn.Module, example: Tensor) -> dict[str, Edges]:
    """A layer is reported as `fc` for the parameter `fc.weight`, whatever pruning or parametrizations wrap it."""
    found = find_paths(from_module(model, (example,), None, LoadOptions()))
    spelled = {}
    for name, _ in model.named_parameters():
        plain = name.replace(".parametrizations.weight.original", ".weight").removesuffix("_orig")
        spelled[plain.removesuffix(".weight")] = name
    return {spelled[name]: edges for name, edges in found.items()}
