"""A callback for the transformers Trainer that logs direct and effective sparsity. Only this module imports
transformers."""

from __future__ import annotations

import importlib
from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.training.logged import SparsityLog


def _callback() -> Any:
    try:
        return importlib.import_module("transformers").TrainerCallback
    except ModuleNotFoundError as error:
        raise UsageError("the Trainer callback needs transformers: pip install transformers accelerate") from error


class SparsityCallback(_callback()):  # type: ignore[misc]  # the Trainer calls every hook, so the base class must define them
    """Log `direct_sparsity` and `effective_sparsity` after every epoch, or every `every_n_steps` steps.

    Add it with `trainer.add_callback(SparsityCallback(trainer, example_input))`. It needs the trainer, because only
    `trainer.log` writes to the log history and to all loggers. With `per_layer`, the sparsities of every layer are
    logged too, as `effective_sparsity/conv1`; `prefix` is put before all keys. Other options are passed to `Analyzer`.
    """

    def __init__(
        self,
        trainer: Any,
        example_input: Any,
        *,
        every_n_steps: int | None = None,
        prefix: str = "",
        per_layer: bool = False,
        **options: Any,
    ) -> None:
        self.trainer = trainer
        self.logged = SparsityLog(
            example_input, every_n_steps=every_n_steps, prefix=prefix, per_layer=per_layer, options=options
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.logged.is_due(state.global_step):
            self._log(state, kwargs["model"])

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.logged.every_n_steps is None:
            self._log(state, kwargs["model"])

    def _log(self, state: Any, model: Any) -> None:
        if state.is_world_process_zero:
            self.trainer.log(self.logged.measure(model))
