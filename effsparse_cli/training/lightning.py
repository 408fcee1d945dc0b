"""A Lightning callback that logs direct and effective sparsity. Lightning is imported here alone, as `lightning` or
as `pytorch_lightning`, whichever there is."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.training.logged import Logged, sparsities

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _callback() -> Any:
    """The class that both packages ask callbacks to be; the package that is in use already comes first."""
    for name in sorted(PACKAGES, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError:
            continue
    raise UsageError("the Lightning callback needs Lightning: pip install lightning (or pytorch-lightning)")


class SparsityCallback(_callback()):  # type: ignore[misc]  # Lightning calls every hook, so all have to be there
    """Logs `direct_sparsity` and `effective_sparsity` after every epoch, or after every `every_n_steps` steps.

    `submodule` names the network within the LightningModule ("net"); without it, its own forward is measured.
    Further options are those of `Analyzer`.
    """

    def __init__(
        self, example_input: Any, *, every_n_steps: int | None = None, submodule: str = "", **options: Any
    ) -> None:
        self.logged = Logged(example_input, every_n_steps, options)
        self.submodule = submodule

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        # The step counts optimizer steps: with accumulated gradients it stands still between them.
        if self.logged.due(trainer.global_step) and trainer.is_global_zero:
            values = self._measure(pl_module)
            # Lightning itself would log them at steps of its own, and the old ones again.
            pl_module.log_dict(values, logger=False, rank_zero_only=True)
            for logger in trainer.loggers:
                logger.log_metrics(values, step=trainer.global_step)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self.logged.every_n_steps is None and trainer.is_global_zero:
            pl_module.log_dict(self._measure(pl_module), rank_zero_only=True)

    def _measure(self, pl_module: Any) -> dict[str, float]:
        return sparsities(self.logged.measure(pl_module.get_submodule(self.submodule)))
