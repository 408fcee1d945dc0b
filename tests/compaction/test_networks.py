"""Networks of every kind shrink if something is dead, from both of torch's exporters, and keep their outputs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import ModelProto
from torch import Tensor, nn

from effsparse_cli.compaction.onnx.execute import compact_onnx
from effsparse_cli.compaction.onnx.shrink import shrink
from effsparse_cli.compaction.onnx.standard_form import to_standard_form
from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.formats.onnx.parse import open_model
from effsparse_cli.formats.options import LoadOptions
from tests.compaction.networks import NETWORKS, build, drop_neurons, prune_at_random
from tests.formats.onnx.exported import export


def compacted(
    model: nn.Module, example: Tensor, folder: Path, exporter: str = "script"
) -> tuple[ModelProto, CompactResult]:
    """Compact a module, and compare the result with the module itself."""
    file = export(model, example, folder / "model.onnx", exporter)
    small, done = compact_onnx(open_model(file), file, LoadOptions())
    onnx.checker.check_model(small, full_check=True)
    x = torch.randn(example.shape, generator=torch.Generator().manual_seed(7))
    session = onnxruntime.InferenceSession(small.SerializeToString(), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = model(x).numpy()
    (found,) = session.run(None, {small.graph.input[0].name: x.numpy()})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))
    return small, done


def weights(done: CompactResult) -> tuple[int, int]:
    return sum(math.prod(x.before) for x in done.layers), sum(math.prod(x.after) for x in done.layers)


@pytest.mark.parametrize(("name", "exporter"), [*((name, "script") for name in NETWORKS), ("attention", "dynamo")])
def test_dead_channels_are_removed(name: str, exporter: str, tmp_path: Path) -> None:
    model, example = build(name)
    small, done = compacted(drop_neurons(model), example, tmp_path, exporter)
    before, after = weights(done)
    assert done.unknown == ()
    assert after < before * (0.95 if name == "residual" else 0.9)
    assert done.after.flops < done.before.flops
    assert done.after.bytes == small.ByteSize() < done.before.bytes


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_is_removed_if_nothing_is_dead(name: str, tmp_path: Path) -> None:
    model, example = build(name)
    _, done = compacted(model, example, tmp_path)
    assert not done.shrunk
    assert done.before.flops == done.after.flops
    assert done.difference <= 1e-6 * done.scale


@pytest.mark.parametrize("name", ["residual", "inverted"])
def test_sparser_models_become_smaller(name: str, tmp_path: Path) -> None:
    sizes = []
    for sparsity in (0.5, 0.85, 0.97):
        model, example = build(name, 1)
        sizes.append(weights(compacted(prune_at_random(model, sparsity, 1), example, tmp_path)[1])[1])
    assert sizes[0] >= sizes[1] > sizes[2]


def test_depthwise_convolutions_keep_blocks_of_groups(tmp_path: Path) -> None:
    """Multiples of the block size, if there are enough groups."""
    model: Any
    model, example = build("inverted")
    with torch.no_grad():
        model.project.weight[:, [0, 3, 7]] = 0
        model.squeeze.weight[:, [0, 3, 7]] = 0
    _, done = compacted(model, example, tmp_path)
    shapes = {layer.name: (layer.before[0], layer.after[0]) for layer in done.layers}
    assert shapes["depthwise"] == (18, 16)
    assert any("1 unused groups of convolutions were kept" in note for note in done.notes)
    whole = to_standard_form(open_model(tmp_path / "model.onnx"), tmp_path / "model.onnx")
    feeds = {whole.graph.input[0].name: example.numpy()}
    for block, groups, spare in ((1, 15, 0), (5, 15, 0), (6, 18, 3), (7, 15, 0), (16, 16, 1), (32, 15, 0)):
        smaller = shrink(whole, feeds, block=block)
        (kept,) = (w.groups for w in smaller.survey.facts.works if w.groups is not None and len(w.groups) > 1)
        assert (smaller.kept.count(kept), smaller.kept.spare) == (groups, spare)


def test_whole_heads_and_equal_columns_are_removed(tmp_path: Path) -> None:
    """Heads 1 and 3 write nothing; of the others, no value writes column 2."""
    model: Any
    model, example = build("attention")
    with torch.no_grad():
        rows = model.qkv.weight.view(3, 4, 4, 16)
        biases = model.qkv.bias.view(3, 4, 4)
        columns = model.out.weight.view(16, 4, 4)
        columns[:, [1, 3]] = 0
        rows[2, :, 2], biases[2, :, 2], columns[:, :, 2] = 0, 0, 0
    _, done = compacted(model, example, tmp_path)
    shapes = {layer.name: (layer.before, layer.after) for layer in done.layers}
    # Queries, keys and values share one tensor, and so its columns: only whole heads can be removed.
    assert shapes["qkv"][1] == (16, 24)
    assert shapes["out"][1] == (8, 16)
