"""Exports torch models to ONNX with both of torch's exporters. For tests only."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

EXPORTERS = ("script", "dynamo")


def export(model: nn.Module, example: Tensor, target: Path, exporter: str) -> Path:
    """Export a model quietly."""
    torch.backends.mha.set_fastpath_enabled(False)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            dynamo = exporter == "dynamo"
            torch.onnx.export(model, (example,), target, dynamo=dynamo, external_data=False, input_names=["x"])
        finally:
            logging.disable(logging.NOTSET)
    return target
