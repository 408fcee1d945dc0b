"""The content of a checkpoint, whatever its format: tensors by name, and what is known about their masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by the names in the file, memory-mapped wherever possible, so that they cost nothing until they are read.

    Once masks are resolved, the names are those of the model, and `masks` reads what is kept of a tensor; without a
    mask, its non-zero values are kept. A tensor that is stored compressed is on the meta device, and `values` reads
    its values. `config` is the config.json of a Hugging Face folder, `preparation` its preprocessor_config.json.
    """

    tensors: Mapping[str, torch.Tensor]
    masks: Mapping[str, Callable[[], Bools]] = field(default_factory=dict)
    values: Mapping[str, Callable[[], torch.Tensor]] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    preparation: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
