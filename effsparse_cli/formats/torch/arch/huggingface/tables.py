"""Recompute tables that transformers does not store, such as sinusoidal positions, and make them buffers."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from effsparse_cli.formats.torch.tracing.trace import file_names


def make_tables(model: Any, stored: Collection[str]) -> None:
    """Fill the parameters that the library does not save, if the file lacks them and they do not depend on random
    numbers."""
    left_out = [*(getattr(model, "_keys_to_ignore_on_load_missing", None) or ())]
    left_out += getattr(model, "_keys_to_ignore_on_save", None) or ()
    names = file_names(model)
    for name, parameter in list(model.named_parameters()):
        if names.get(name, name) in stored or not any(re.search(pattern, name) for pattern in left_out):
            continue
        path, _, own = name.rpartition(".")
        module = model.get_submodule(path)
        first, second = (_initial(model, module, own, parameter, seed) for seed in (0, 1))
        if torch.equal(first, second):
            del module._parameters[own]
            module.register_buffer(own, first, persistent=False)


def _initial(model: Any, module: nn.Module, own: str, parameter: nn.Parameter, seed: int) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        filled = torch.rand(parameter.shape).to(parameter.dtype)
        module._parameters[own] = nn.Parameter(filled, requires_grad=False)
        try:
            model._init_weights(module)
            return module._parameters[own].detach().clone()  # type: ignore[union-attr]
        finally:
            module._parameters[own] = parameter
