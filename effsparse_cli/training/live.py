"""A trace of one live module, taken on first use and again if the structure of the module changes. Weights, masks,
biases and scales are read again every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import lower_live, trace_live
from effsparse_cli.formats.torch.tracing.trace import TracedModel, with_current_tensors
from effsparse_cli.graph.graph import Graph
from effsparse_cli.training.structure import read_structure

READS_VALUES = {
    torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__bool__, torch.Tensor.__int__,
    torch.Tensor.__float__, torch.Tensor.__complex__, torch.Tensor.__index__, torch.Tensor.__array__,
    torch.Tensor.__contains__, torch.Tensor.__format__, torch.Tensor.equal, torch.Tensor.allclose,
    torch.Tensor.is_nonzero, torch.equal, torch.allclose, torch.is_nonzero,
}  # fmt: skip


class ValueReadDetector(TorchFunctionMode):
    """Detects whether values were read from tensors: the trace may then contain them or depend on them."""

    triggered = False

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.triggered = self.triggered or func in READS_VALUES
        return func(*args, **(kwargs or {}))


class LiveTrace:
    """The trace for one module and one kind of input; it holds neither. `traces` counts how often it was taken."""

    def __init__(self) -> None:
        self.traces = 0
        self._traced: TracedModel | None = None
        self._structure: object = None

    def graph(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: LoadOptions) -> Graph:
        """Return the graph of the module as it is now, equal to that of a fresh trace."""
        model = getattr(model, "_orig_mod", model)
        now = read_structure(model)
        if self._traced is None or self._structure != now:
            self.traces += 1
            with ValueReadDetector() as detector:
                traced = trace_live(model, args, kwargs)
            self._structure, self._traced = now, None if detector.triggered or _is_data_dependent(traced) else traced
        else:
            traced = with_current_tensors(self._traced, model)
        return lower_live(traced, model, options)


def _is_data_dependent(traced: TracedModel) -> bool:
    """Return whether values may have decided which operators a recorded run executed, or on which shapes."""
    tags = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
    return traced.observed and any(
        tags & set(getattr(node.target, "tags", ())) and not _is_integer_index(node) for node in traced.graph.nodes
    )


def _is_integer_index(node: fx.Node) -> bool:
    """Integer indices determine the shape of the result by their own shape; boolean masks do not."""
    if node.target is not torch.ops.aten.index.Tensor:
        return False
    picks = [pick for pick in node.args[1] if isinstance(pick, fx.Node)]  # type: ignore[union-attr]
    return all(pick.meta["val"].dtype not in (torch.bool, torch.uint8) for pick in picks)
