"""Tiny models of many Hugging Face families, pruned at random and saved: inactive connections are changed by a lot in
the file, and the model that transformers loads from it must return the same, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch.arch.huggingface.inputs import infer_shapes
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.edges import Edges
from tests.formats.torch.hf_families import FAMILIES
from tests.formats.torch.perturbed import thin

FILE = "model.safetensors"
USUAL = ("qwen3", "mamba2", "deepseek_v3", "jetmoe", "deberta_v2", "marian", "swin", "wav2vec2")
"""Families that are tested in every run."""


@pytest.mark.parametrize("name", [n if n in USUAL else pytest.param(n, marks=pytest.mark.slow) for n in FAMILIES])
def test_inactive_connections_of_a_folder_change_nothing(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    torch.manual_seed(0)
    model = FAMILIES[name].build().eval()
    thin(model, 0.2)
    model.save_pretrained(tmp_path)
    found = find_paths(load(tmp_path, LoadOptions()))
    inputs = _inputs(model)
    before = _outputs(tmp_path, model, inputs)
    changed = _change(tmp_path / FILE, found)
    assert changed > 0
    record_property("witness: inactive connections of Hugging Face folders changed", changed)
    after = _outputs(tmp_path, model, inputs)
    assert [torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(before, after, strict=True)] == [True] * len(
        before
    )


def _inputs(model: Any) -> dict[str, Tensor]:
    dice = torch.Generator().manual_seed(1)
    return {
        name: torch.randint(3, 20, shape, generator=dice)
        if name.endswith("ids")
        else torch.randn(shape, generator=dice)
        for name, shape in infer_shapes(model)[0].items()
    }


def _outputs(folder: Path, model: Any, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    loaded = type(model).from_pretrained(folder).eval()
    loaded.config.use_cache = False
    torch.manual_seed(0)
    with torch.no_grad():
        given = tree_flatten(loaded(**inputs).to_tuple())[0]
    return [value for value in given if isinstance(value, Tensor)]


def _change(file: Path, found: Mapping[str, Edges]) -> int:
    """Return the number of changed elements, which are inactive and not bias carriers. Every layer has a tensor of its
    name, unless a parametrization stores it in another form."""
    tensors, changed = load_file(file), 0
    dice = torch.Generator().manual_seed(1)
    for layer, edges in found.items():
        forms = (layer, f"{layer}.weight", f"{layer}.parametrizations.weight.original1", f"{layer}.weight_v")
        name = next(form for form in forms if form in tensors)
        idle = torch.from_numpy(edges.mask("kept") & ~edges.mask("active") & ~edges.mask("carrier"))
        noise = torch.randn(int(idle.sum()), generator=dice) * 100
        tensors[name][idle] += noise.to(tensors[name].dtype)
        changed += len(noise)
    save_file(tensors, file, {"format": "pt"})
    return changed
