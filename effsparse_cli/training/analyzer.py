"""The object for a training loop: one model and example input, and its current analysis on every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.report.analysis.report import Report


class Analyzer:
    """Repeated `analyze` of one model, at a fraction of the cost.

    The model is traced on the first call, and again only if its structure changes: pruning applied or removed, modules
    replaced, a different dtype, shape or device. A forward that reads values from tensors (`.item()`, `if x.any()`) is
    traced on every call, because the values may decide which operators run. Changes outside the model that its forward
    depends on, such as global variables, take effect after `retrace`.

    Examples:
        >>> analyzer = effsparse.Analyzer(model, x)
        >>> analyzer().totals.effective_sparsity
        0.0
        >>> logged = analyzer().log_dict(per_layer=True)
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
        norms_dont_cut: bool = False,
    ) -> None:
        from effsparse_cli.formats.options import LoadOptions
        from effsparse_cli.training.recent import split_arguments

        self.model = model
        self._arguments = split_arguments(example_input)
        if not any(self._arguments):
            raise UsageError("no example input: pass a tensor, a tuple of arguments or a dict of keyword arguments")
        self._options = LoadOptions(outputs=tuple(outputs), norms_cut=not norms_dont_cut)
        self._settings: dict[str, Any] = {"engine": engine, "device": device, "count_embeddings": count_embeddings}
        self.retrace()

    def __call__(self, *, active_masks: bool = False) -> Report:
        """Analyze the model as it is now. With `active_masks`, the result holds one boolean array per weight."""
        from effsparse_cli.analysis.measure import analyze_graph
        from effsparse_cli.report.analysis.report import Report

        graph = self._live.graph(self.model, *self._arguments, self._options)
        analysis = analyze_graph(graph, masks=active_masks, **self._settings)
        return Report.of(analysis, model=type(self.model).__name__)

    def retrace(self) -> None:
        """Discard the trace, so that the next call takes a new one."""
        from effsparse_cli.training.live import LiveTrace

        self._live = LiveTrace()

    @property
    def traces(self) -> int:
        """Number of traces taken since creation or the last `retrace`."""
        return self._live.traces
