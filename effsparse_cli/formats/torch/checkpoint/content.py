"""The content of a checkpoint, whatever its format: tensors by name, and what is known about their masks. Errors while
following what a file describes are damage of the file, not bugs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import EffsparseError, LoadError, describe_error
from effsparse_cli.graph.primitives import Bools

EXPORT_AGAIN = "Export it again."


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


@contextmanager
def damage_on_error(path: Path, advice: str = "Download it again.") -> Iterator[None]:
    """Turn any other error into one that says that the file is damaged."""
    try:
        yield
    except EffsparseError:
        raise
    except (Exception, RecursionError) as error:
        detail = describe_error(error, 200)
        raise LoadError(f"{path} is damaged: its content is invalid ({detail}). {advice}") from error
