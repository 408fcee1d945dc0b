"""A module made of a few submodules and a function, so that a test's network fits on a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Functional(nn.Module):
    """forward(*inputs) is forward_function(self, *inputs)."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Tensor:
        result: Tensor = self.function(self, *inputs)
        return result
