"""What a file of tensors holds, whatever its format: the tensors by name, and what is known of masks among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True)
class Checkpoint:
    """`tensors` stand under the names that the file gives them, in memory-mapped storage wherever that can be, so
    that holding one costs nothing until it is read. Once masks are resolved the names are those of the model, and
    `masks` reads what is kept of a tensor (none: what is not zero); one that is stored compressed is on the meta
    device in `tensors`, and `values` reads its numbers. `config` is a Hugging Face folder's config.json, `preparation`
    its preprocessor_config.json."""

    tensors: Mapping[str, torch.Tensor]
    masks: Mapping[str, Callable[[], Bools]] = field(default_factory=dict)
    values: Mapping[str, Callable[[], torch.Tensor]] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    preparation: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
