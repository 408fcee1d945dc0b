"""Perturb the weights of a real module: inactive weights are changed by a lot, bias carriers excepted, and the outputs
must not change by one bit; nearly all active weights must change them, one at a time."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Opaque
from effsparse_cli.graph.verify import verify
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.edges import Edges

WRAPPED = re.compile(r"\.parametrizations|\.original1?$|_orig$|_v$")
Inputs = tuple[Tensor, ...]
DEFAULT = LoadOptions()


def lowered(
    model: nn.Module, args: Inputs, kwargs: Mapping[str, object] | None = None, options: LoadOptions = DEFAULT
) -> Graph:
    """Return a valid graph without unknown operators."""
    graph = from_module(model, args, kwargs, options)
    verify(graph)
    assert [node.op.label for node in graph.nodes if isinstance(node.op, Opaque)] == []
    return graph


def thin(model: nn.Module, density: float, seed: int = 0) -> None:
    """Set weights with two or more axes, and some biases and scales, to zero at random."""
    dice = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        keep = torch.rand(parameter.shape, generator=dice) < (density if parameter.dim() > 1 else 0.6)
        parameter.data = (torch.randn(parameter.shape, generator=dice) * 0.5 * keep).to(parameter.dtype)


def outputs(model: nn.Module, args: Inputs, kwargs: Mapping[str, object] | None = None) -> list[Tensor]:
    was = model.training
    with torch.no_grad():
        flat = tree_flatten(model.eval()(*args, **(kwargs or {})))[0]
    model.train(was)
    return [value for value in flat if isinstance(value, Tensor)]


def by_layer(model: nn.Module) -> dict[str, Tensor]:
    """Return the user's parameters by layer name."""
    plain: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        plain.setdefault(WRAPPED.sub("", name).removesuffix(".weight"), parameter)
    return plain


def same(before: list[Tensor], after: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def _followed(found: Mapping[str, Edges], stored: Mapping[str, Tensor]) -> list[tuple[str, Edges]]:
    """Return all layers except computed ones, which no single parameter stores."""
    return [(name, edges) for name, edges in found.items() if name in stored or name != "weight"]


def idle_weights_do_nothing(model: nn.Module, args: Inputs, kwargs: Mapping[str, object] | None = None) -> None:
    found = find_paths(lowered(model, args, kwargs))
    before, stored = outputs(model, args, kwargs), by_layer(model)
    noise = torch.Generator().manual_seed(1)
    for name, edges in _followed(found, stored):
        idle = torch.from_numpy(edges.mask("kept") & ~edges.mask("active") & ~edges.mask("carrier"))
        amount = torch.randn(int(idle.sum()), generator=noise) * 100
        stored[name].data[idle] += amount.to(stored[name].dtype)
    assert same(before, outputs(model, args, kwargs))


def _another(x: Tensor) -> Tensor:
    return torch.randn_like(x) if x.is_floating_point() else torch.randint_like(x, 0, int(x.max()) + 1)


def moving_share(model: nn.Module, args: Inputs, tries: int = 30) -> float:
    """Return the share of active weights that change the output for some random input, changed one at a time."""
    found, stored, dice = find_paths(lowered(model, args)), by_layer(model), random.Random(0)
    followed = _followed(found, stored)
    active = [(name, int(i)) for name, edges in followed for i in edges.mask("active").reshape(-1).nonzero()[0]]
    drawn = [tuple(_another(x) for x in args) for _ in range(4 if all(x.is_floating_point() for x in args) else 20)]
    before = [outputs(model, inputs) for inputs in drawn]
    chosen = dice.sample(active, min(tries, len(active)))
    moved = 0
    for name, i in chosen:
        flat = stored[name].data.view(-1)
        old = flat[i].clone()
        flat[i] += 0.37
        moved += any(not same(b, outputs(model, inputs)) for b, inputs in zip(before, drawn, strict=True))
        flat[i] = old
    return moved / max(len(chosen), 1)
