"""Layers that NNI has wrapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from effsparse_cli.formats import LoadOptions, load
from tests.formats.torch.conventions.models import a_mask, chain, kept, resolved


class Wrapper(nn.Module):
    """Stores a layer as NNI's PrunerModuleWrapper does."""

    def __init__(self, module: nn.Linear) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("weight_mask", a_mask(*module.weight.shape).float())
        self.register_buffer("bias_mask", torch.ones_like(module.bias))


def wrapped() -> Any:
    model = chain()
    model[0] = Wrapper(model[0])
    return model


def test_wrapped_layers_get_their_own_names() -> None:
    model = wrapped()
    found = resolved(model.state_dict())
    assert list(found.tensors) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert (kept(found, "0.weight") == model[0].weight_mask.bool().numpy()).all()
    assert any("never applied" in note for note in found.notes)


def test_wrapped_layers_fit_the_unwrapped_model(tmp_path: Path) -> None:
    model = wrapped()
    torch.save({"state_dict": model.state_dict()}, tmp_path / "nni.pt")
    options = LoadOptions(arch="tests.formats.torch.conventions.models:chain", input_shapes={"": (1, 16)})
    graph = load(tmp_path / "nni.pt", options)
    assert graph.layers["0"].kept().sum() == model[0].weight_mask.sum()


def test_submodule_named_module() -> None:
    state = {"a.module.weight": torch.ones(2, 2), "a.weight": torch.ones(2, 2), "a.weight_mask": torch.ones(2, 2)}
    assert list(resolved(state).tensors) == ["a.module.weight", "a.weight"]
