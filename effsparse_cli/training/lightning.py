"""A Lightning callback that logs direct and effective sparsity. Only this module imports Lightning, as `lightning` or
as `pytorch_lightning`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.training.logged import SparsityLog

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _callback() -> Any:
    """Return the base class of callbacks, from the package that is already imported if there is one."""
    for name in sorted(PACKAGES, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError:
            continue
    raise UsageError("the Lightning callback needs Lightning: pip install lightning (or pytorch-lightning)")


class SparsityCallback(_callback()):  # type: ignore[misc]  # Lightning calls every hook, so the base class must define them
    """Log `direct_sparsity` and `effective_sparsity` after every epoch, or every `every_n_steps` steps.

    `submodule` is the name of the network within the LightningModule ("net"); by default the LightningModule itself is
    measured. With `per_layer`, the sparsities of every layer are logged too, as `effective_sparsity/conv1`; `prefix` is
    put before all keys. Other options are passed to `Analyzer`.
    """

    def __init__(
        self,
        example_input: Any,
        *,
        every_n_steps: int | None = None,
        submodule: str = "",
        prefix: str = "",
        per_layer: bool = False,
        **options: Any,
    ) -> None:
        self.logged = SparsityLog(
            example_input, every_n_steps=every_n_steps, prefix=prefix, per_layer=per_layer, options=options
        )
        self.submodule = submodule

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        # global_step counts optimizer steps: with gradient accumulation it does not change with every batch.
        if self.logged.is_due(trainer.global_step) and trainer.is_global_zero:
            values = self._measure(pl_module)
            # Lightning would log them at its own intervals, and repeat old values.
            pl_module.log_dict(values, logger=False, rank_zero_only=True)
            for logger in trainer.loggers:
                logger.log_metrics(values, step=trainer.global_step)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self.logged.every_n_steps is None and trainer.is_global_zero:
            pl_module.log_dict(self._measure(pl_module), rank_zero_only=True)

    def _measure(self, pl_module: Any) -> dict[str, float]:
        return self.logged.measure(pl_module.get_submodule(self.submodule))
