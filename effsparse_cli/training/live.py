"""A trace of one live module, taken when it is first asked for and again when the module is built differently.
Weights, masks, biases and scales are read anew every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import lower_live, trace_live
from effsparse_cli.formats.torch.tracing.trace import TracedModel, of_now
from effsparse_cli.graph.graph import Graph
from effsparse_cli.training.structure import structure

LOOKING = {
    torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__bool__, torch.Tensor.__int__,
    torch.Tensor.__float__, torch.Tensor.__complex__, torch.Tensor.__index__, torch.Tensor.__array__,
    torch.Tensor.__contains__, torch.Tensor.__format__, torch.Tensor.equal, torch.Tensor.allclose,
    torch.Tensor.is_nonzero, torch.equal, torch.allclose, torch.is_nonzero,
}  # fmt: skip


class Lookout(TorchFunctionMode):
    """Notes whether numbers were taken out of tensors: they then stand in the trace, or have steered it."""

    looked = False

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.looked = self.looked or func in LOOKING
        return func(*args, **(kwargs or {}))


class LiveTrace:
    """For one module and one form of its input; neither is held. `traces` counts how often it was traced."""

    def __init__(self) -> None:
        self.traces = 0
        self._traced: TracedModel | None = None
        self._structure: object = None

    def graph(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: LoadOptions) -> Graph:
        """The graph of the module as it is now, the same as a fresh trace gives."""
        model = getattr(model, "_orig_mod", model)
        now = structure(model)
        if self._traced is None or self._structure != now:
            self.traces += 1
            with Lookout() as lookout:
                traced = trace_live(model, args, kwargs)
            self._structure, self._traced = now, None if lookout.looked or _steered(traced) else traced
        else:
            traced = of_now(self._traced, model)
        return lower_live(traced, model, options)


def _steered(traced: TracedModel) -> bool:
    """Of a recorded run: may values have decided which operators ran, or on what shapes?"""
    tags = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
    return traced.observed and any(
        tags & set(getattr(node.target, "tags", ())) and not _by_number(node) for node in traced.graph.nodes
    )


def _by_number(node: fx.Node) -> bool:
    """Reading by index has the index's shape, unless the index is of booleans."""
    if node.target is not torch.ops.aten.index.Tensor:
        return False
    picks = [pick for pick in node.args[1] if isinstance(pick, fx.Node)]  # type: ignore[union-attr]
    return all(pick.meta["val"].dtype not in (torch.bool, torch.uint8) for pick in picks)
