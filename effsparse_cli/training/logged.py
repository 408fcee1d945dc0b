"""What the callbacks of training libraries share: when to measure, and one analyzer per model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import UsageError
from effsparse_cli.training.analyzer import Analyzer

if TYPE_CHECKING:
    from torch import nn


class SparsityLog:
    """Measures once per epoch if `every_n_steps` is None. `last` is the last analysis that was logged."""

    def __init__(
        self,
        example_input: Any,
        *,
        every_n_steps: int | None = None,
        prefix: str = "",
        per_layer: bool = False,
        options: Mapping[str, Any],
    ) -> None:
        if every_n_steps is not None and every_n_steps < 1:
            raise UsageError(f"every_n_steps is {every_n_steps}: use 1 or more, or None for once per epoch")
        self.example_input, self.every_n_steps, self.options = example_input, every_n_steps, options
        self.prefix, self.per_layer = prefix, per_layer
        self.analyzer: Analyzer | None = None
        self.last: Analysis | None = None
        self._step = 0

    def is_due(self, step: int) -> bool:
        """Return True once for every n-th step, however often it is called for a step."""
        due = self.every_n_steps is not None and step != self._step and step % self.every_n_steps == 0
        self._step = step
        return due

    def measure(self, model: nn.Module) -> dict[str, float]:
        """Analyze the model and return the values to log."""
        if self.analyzer is None or self.analyzer.model is not model:
            self.analyzer = Analyzer(model, self.example_input, **self.options)
        self.last = self.analyzer()
        return self.last.log_dict(self.prefix, self.per_layer)
