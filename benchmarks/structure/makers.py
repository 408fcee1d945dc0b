"""Valid files for the corpus, written by their own libraries."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def linear() -> Any:
    from torch import nn

    return _thinned(lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)))


def convolutional() -> Any:
    from torch import nn

    return _thinned(
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
        )
    )


def _thinned(build: Callable[[], Any]) -> Any:
    """Set half of the weights to zero, always the same ones."""
    import torch

    torch.manual_seed(0)
    model = build()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data *= torch.rand(parameter.shape) < 0.5
    return model


def saved(content: object, legacy: bool = False) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def exported(model: Any) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.export.save(torch.export.export(model.eval(), (torch.zeros(1, 2, 4, 4),)), buffer)
    return buffer.getvalue()


def npz(arrays: Mapping[str, Any]) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **{name: array.numpy() for name, array in arrays.items()})
    return buffer.getvalue()


def llama() -> dict[str, bytes]:
    import torch

    from tests.torchvision_models import models

    models()  # transformers imports torchvision
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=16, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size="3KB")
        return {f"llama/{file.name}": file.read_bytes() for file in sorted(Path(folder).iterdir())}


def baseline(model: bytes) -> bytes:
    """Write a baseline in a separate process: `check` starts worker processes that forked processes cannot share."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.pt").write_bytes(model)
        command = [sys.executable, "-m", "effsparse_cli", "check", "model.pt", "--write-baseline", "base.json"]
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
        subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True)
        return (Path(folder) / "base.json").read_bytes()
