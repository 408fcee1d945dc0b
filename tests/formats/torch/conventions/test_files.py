"""Whole files through the front door: written by the libraries, read as data, put into an architecture, and counted."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from effsparse_cli.errors import LoadError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.graph.graph import Graph
from tests.formats.torch.conventions.models import a_mask, chain, prune

ARCH = "tests.formats.torch.conventions.models:chain"
MASKS = {"0": a_mask(12, 16), "2": a_mask(8, 12)}


def dense() -> dict[str, torch.Tensor]:
    torch.manual_seed(6)
    state: dict[str, torch.Tensor] = chain().state_dict()
    return state


def zeroed() -> dict[str, torch.Tensor]:
    masked = {f"{layer}.weight": mask for layer, mask in MASKS.items()}
    return {name: tensor * masked[name] if name in masked else tensor for name, tensor in dense().items()}


def named(name: str) -> dict[str, torch.Tensor]:
    return {name.format(layer): mask.float() for layer, mask in MASKS.items()}


def pruned() -> Any:
    model = chain()
    model.load_state_dict(dense())
    for layer, mask in MASKS.items():
        prune.custom_from_mask(model[int(layer)], "weight", mask)
    return model


def with_prefix(prefix: str, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


def in_layout(change: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: change(tensor) if tensor.ndim > 1 else tensor for name, tensor in zeroed().items()}


FILES: dict[str, Callable[[], Any]] = {
    "prune": lambda: pruned().state_dict(),
    "prune in a training checkpoint": lambda: {"epoch": 1, "state_dict": with_prefix("module.", pruned().state_dict())},
    "SynFlow": lambda: {**dense(), **named("{}.weight_mask")},
    "OpenLTH": lambda: {**with_prefix("model.", dense()), **named("mask_{}___weight")},
    "OpenLTH in parallel": lambda: with_prefix(
        "module.", {**with_prefix("model.", dense()), **named("mask_{}___weight")}
    ),
    "Apex": lambda: {**zeroed(), **named("{}.__weight_mma_mask")},
    "NNCF": lambda: {**dense(), **named("{}.pre_ops.0.op.binary_mask")},
    "DeepSpeed": lambda: {"module": {**dense(), **named("{}.sparse_pruning_mask")}},
    "by hand": lambda: {**dense(), **named("{}.mask")},
    "zeros": zeroed,
    "coo": lambda: in_layout(lambda t: t.to_sparse()),
    "csr": lambda: in_layout(lambda t: t.to_sparse_csr()),
    "csc": lambda: in_layout(lambda t: t.to_sparse_csc()),
    "bsr": lambda: in_layout(lambda t: t.to_sparse_bsr((4, 4))),
    "sparse_weight": lambda: {
        name.replace("weight", "sparse_weight"): tensor for name, tensor in in_layout(lambda t: t.to_sparse()).items()
    },
}


def read(path: Path, **options: Any) -> Graph:
    return load(path, LoadOptions(arch=ARCH, **options))


def check(graph: Graph) -> None:
    assert set(graph.layers) == set(MASKS)
    for layer, mask in MASKS.items():
        assert (graph.layers[layer].kept() == mask.numpy()).all(), layer
    assert not any("NaN" in note for note in graph.notes)


@pytest.mark.parametrize("file", FILES)
def test_every_convention(file: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(FILES[file](), tmp_path / "model.pt")
    graph = read(tmp_path / "model.pt")
    check(graph)
    masked = file not in ("zeros", "coo", "csr", "csc", "bsr", "sparse_weight")
    assert all(layer.masked == masked for layer in graph.layers.values())


def test_the_masks_of_a_sparsifier_beside_the_model(tmp_path: Path) -> None:
    model = chain()
    sparsifier = importlib.import_module("torch.ao.pruning").WeightNormSparsifier(sparsity_level=1.0)
    sparsifier.prepare(model, [{"tensor_fqn": f"{layer}.weight"} for layer in MASKS])
    sparsifier.step()
    truth = {layer: (model[int(layer)].weight != 0).numpy() for layer in MASKS}
    torch.save({"model": model.state_dict(), "sparsifier": sparsifier.state_dict()}, tmp_path / "both.pt")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    torch.save(sparsifier.state_dict(), tmp_path / "masks.pt")
    with pytest.raises(LoadError, match="has no mask in this file"):
        read(tmp_path / "model.pt")
    for graph in (read(tmp_path / "both.pt"), read(tmp_path / "model.pt", masks=tmp_path / "masks.pt")):
        assert all((graph.layers[layer].kept() == kept).all() for layer, kept in truth.items())
    sparsifier.squash_mask()
    torch.save({"model": model.state_dict(), "sparsifier": sparsifier.state_dict()}, tmp_path / "squashed.pt")
    squashed = read(tmp_path / "squashed.pt")
    assert all((squashed.layers[layer].kept() == kept).all() for layer, kept in truth.items())


def test_a_quantised_state_dict(tmp_path: Path) -> None:
    quantization: Any = importlib.import_module("torch.ao.quantization")
    model = chain()
    model.load_state_dict(zeroed())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    torch.save(quantised.state_dict(), tmp_path / "q.pt")
    graph = read(tmp_path / "q.pt")
    for layer in MASKS:
        weight = quantised[int(layer)].weight()
        assert (graph.layers[layer].kept() == (weight.int_repr() != weight.q_zero_point()).numpy()).all()


def test_a_compressed_safetensors_file(tmp_path: Path) -> None:
    state = {}
    for name, tensor in zeroed().items():
        if tensor.ndim < 2:
            state[name] = tensor
            continue
        bits = np.packbits((tensor != 0).numpy(), axis=-1, bitorder="little")
        state[f"{name}.shape"] = torch.tensor(tensor.shape)
        state[f"{name}.compressed"], state[f"{name}.bitmask"] = tensor[tensor != 0], torch.from_numpy(bits)
        state[f"{name}.row_offsets"] = torch.zeros(len(tensor), dtype=torch.int64)
    save_file(state, tmp_path / "model.safetensors")
    check(read(tmp_path / "model.safetensors"))


def test_an_architecture_that_is_pruned_itself(tmp_path: Path) -> None:
    torch.save(pruned().state_dict(), tmp_path / "model.pt")
    check(load(tmp_path / "model.pt", LoadOptions(arch="tests.formats.torch.conventions.test_files:pruned")))
