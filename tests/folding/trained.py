"""Make models look trained and pruned: nonzero biases, shifts and running statistics, weights pruned at random and
scaled so that a signal still gets through. Also checks that a repair preserves the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.folding.results import RepairResult
from effsparse_cli.folding.torch.execute import repair_module
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module


def like_trained(model: nn.Module, density: float, seed: int = 0) -> nn.Module:
    """Change a model in place and put it into evaluation mode. Heads that are initialized with zeros get values."""
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=dice)
            if parameter.ndim > 1:
                parameter.copy_(noise * (2 / (density * parameter[0].numel())) ** 0.5)
                parameter.mul_(torch.rand(parameter.shape, generator=dice) < density)
            else:
                parameter.add_(noise.to(parameter.dtype) * 0.2)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(torch.randn(buffer.shape, generator=dice) * 0.2)
            if name.endswith("running_var"):
                buffer.copy_(torch.rand(buffer.shape, generator=dice) + 0.5)
    return model.eval()


def results(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int) -> list[Tensor]:
    dice = torch.Generator().manual_seed(seed)

    def other(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        return torch.randn(value.shape, generator=dice, dtype=torch.float64).to(value.dtype)

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        flat = tree_flatten(model(*map(other, args), **{name: other(value) for name, value in kwargs.items()}))[0]
    torch.backends.mha.set_fastpath_enabled(fast)
    return [value for value in flat if isinstance(value, Tensor)]


def repaired(model: nn.Module, *args: Any, **kwargs: Any) -> RepairResult:
    """Repair a model in which everything that was active stays active."""
    done = repaired_behind_gates(model, *args, **kwargs)
    assert done.after.totals.active == done.before.totals.active
    return done


def repaired_behind_gates(model: nn.Module, *args: Any, **kwargs: Any) -> RepairResult:
    """Repair a model in place and check the promise: the outputs are the same, and all inactive connections that stay
    are reported. Active connections can become inactive if a constant is measured to be zero, which closes a gate."""
    before = [results(model, args, kwargs, seed) for seed in range(100, 103)]
    done = repair_module(model, args, kwargs)
    after = [results(model, args, kwargs, seed) for seed in range(100, 103)]
    tolerance = 1e-10 if next(model.parameters()).dtype == torch.float64 else 1e-4
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old, new, strict=True):
            torch.testing.assert_close(b, a, rtol=0, atol=tolerance * max(1.0, float(a.abs().max())))
    found = analyze_graph(from_module(model, args, kwargs, LoadOptions()))
    left: dict[str, int] = {}
    for each in done.left:
        left[each.layer] = left.get(each.layer, 0) + each.connections
    assert {layer.name: layer.counts.inactive for layer in found.layers if layer.counts.inactive} == left
    assert found.totals == done.after.totals
    assert found.totals.active <= done.before.totals.active
    return done
