"""The object for a training loop: a model and an example of its input enter once, every call gives the analysis of
the model as it is then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.training.live import LiveTrace
from effsparse_cli.training.recent import arguments


class Analyzer:
    """Equal to a fresh `analyze` after any change of the model, at a fraction of its cost.

    The model is traced at the first call, and again only when it is built differently: pruning applied or removed,
    modules replaced, another type, shape or device. A forward that takes numbers out of tensors (`.item()`, `if
    x.any()`) is traced every time, because they may have steered it. What a forward reads from outside of the model,
    a global variable say, is seen after `retrace`.
    """

    def __init__(
        self,
        model: nn.Module,
        example_input: Any,
        *,
        outputs: Sequence[str] = (),
        engine: str = "bits",
        device: str = "cpu",
        count_embeddings: bool = False,
        norms_cut: bool = True,
    ) -> None:
        self.model = model
        self._arguments = arguments(example_input)
        if not any(self._arguments):
            raise UsageError("no example input: give a tensor, a tuple of arguments or a dict of keyword arguments")
        self._options = LoadOptions(outputs=tuple(outputs), norms_cut=norms_cut)
        self._settings: dict[str, Any] = {"engine": engine, "device": device, "count_embeddings": count_embeddings}
        self.retrace()

    def __call__(self, *, masks: bool = False) -> Analysis:
        """With `masks` the result holds one boolean array per weight."""
        graph = self._live.graph(self.model, *self._arguments, self._options)
        return analyze_graph(graph, masks=masks, **self._settings)

    def retrace(self) -> None:
        """Forget the trace, so that the next call takes a new one."""
        self._live = LiveTrace()

    @property
    def traces(self) -> int:
        """How often the model was traced since the start or the last `retrace`."""
        return self._live.traces
