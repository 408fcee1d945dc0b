"""Layers of a Hugging Face folder have the names of its files, not those of transformers, and experts that are stored
one by one give the same counts as the fused ones of the library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from effsparse_cli import analyze
from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.cli import run
from effsparse_cli.errors import LoadError
from effsparse_cli.formats import LoadOptions, load, open_model_file
from effsparse_cli.formats.torch.arch.huggingface.conversion import map_weights
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.graph.primitives import Weight
from tests.formats.torch.hf_families import FAMILIES
from tests.formats.torch.hf_models import IDS, transformers
from tests.formats.torch.perturbed import thin

OPTIONS = LoadOptions()
FILE = "model.safetensors"


def made(name: str, density: float = 0.2) -> Any:
    torch.manual_seed(0)
    model = FAMILIES[name].build().eval()
    thin(model, density)
    return model


def edit(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    save_file(change(load_file(folder / FILE)), folder / FILE, {"format": "pt"})


def read(folder: Path) -> Analysis:
    return analyze_graph(load(folder, OPTIONS))


def names(found: Analysis) -> list[str]:
    return [layer.name for layer in (*found.layers, *found.apart)]


def test_older_and_newer_names(tmp_path: Path) -> None:
    model = made("vit")
    model.save_pretrained(tmp_path)
    older = read(tmp_path)
    assert "vit.encoder.layer.0.attention.attention.query" in names(older)
    edit(tmp_path, lambda _: {name: tensor.clone() for name, tensor in model.state_dict().items()})
    newer = read(tmp_path)
    assert "vit.layers.0.attention.q_proj" in names(newer)
    assert [layer.counts for layer in older.layers] == [layer.counts for layer in newer.layers]


@pytest.mark.parametrize("name", ["deit", "beit", "swin", "dinov2", "gpt_neox", "clip"])
def test_layers_have_names_of_the_file(tmp_path: Path, name: str) -> None:
    made(name).save_pretrained(tmp_path)
    stored = load_file(tmp_path / FILE)
    assert [n for n in names(read(tmp_path)) if n not in stored and f"{n}.weight" not in stored] == []


def test_legacy_names() -> None:
    model = FAMILIES["bert"].build()
    old = "bert.encoder.layer.0.output.LayerNorm.gamma"
    assert map_weights(model, [old]).renamed == {"bert.encoder.layer.0.output.LayerNorm.weight": old}


def test_missing_tensor_has_its_own_name(tmp_path: Path) -> None:
    model = made("vit")
    model.save_pretrained(tmp_path)
    query = "vit.encoder.layer.0.attention.attention.query.weight"
    edit(tmp_path, lambda tensors: {name: tensor for name, tensor in tensors.items() if name != query})
    with pytest.raises(
        LoadError, match=r"1 tensor of the model is not in the file: vit.layers.0.attention.q_proj.weight"
    ):
        load(tmp_path, OPTIONS)


EXPERTS = {
    "mixtral": "model.layers.0.block_sparse_moe.experts.3.w1",
    "qwen3_moe": "model.layers.0.mlp.experts.3.gate_proj",
    "deepseek_v3": "model.layers.0.mlp.experts.3.gate_proj",
}


@pytest.mark.parametrize("name", EXPERTS)
def test_separate_experts_count_like_fused_ones(tmp_path: Path, name: str) -> None:
    model = made(name)
    model.save_pretrained(tmp_path)
    separate = read(tmp_path)
    assert EXPERTS[name] in names(separate)
    live = analyze(model, {"input_ids": IDS, "use_cache": False})
    assert separate.totals == live.totals
    edit(tmp_path, lambda _: {name: tensor.clone() for name, tensor in model.state_dict().items()})
    fused = read(tmp_path)
    assert "experts.gate_up_proj" in " ".join(names(fused))
    assert fused.totals == separate.totals
    assert separate.totals.active < separate.totals.kept < separate.totals.connections


@pytest.mark.parametrize(
    "name", ["gpt_oss", *(pytest.param(n, marks=pytest.mark.slow) for n in ("granitemoe", "llama4", "jamba", "phimoe"))]
)
def test_experts_of_other_families(tmp_path: Path, name: str) -> None:
    model = made(name)
    model.save_pretrained(tmp_path)
    live = analyze(model, {"input_ids": IDS, "use_cache": False})
    assert read(tmp_path).totals == live.totals


def test_missing_expert(tmp_path: Path) -> None:
    made("mixtral").save_pretrained(tmp_path)
    edit(tmp_path, lambda tensors: {n: t for n, t in tensors.items() if "layers.0.block_sparse_moe.experts.2" not in n})
    with pytest.raises(LoadError, match=r"experts\.0\.w1\.weight.* 4x64x16.* in the model, but .*3x64x16"):
        load(tmp_path, OPTIONS)


def test_masks_of_experts(tmp_path: Path) -> None:
    """Masks have the names of torch.nn.utils.prune."""
    model = made("mixtral")
    model.save_pretrained(tmp_path)
    plain, expert = read(tmp_path), f"{EXPERTS['mixtral']}.weight"

    def with_mask(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        weight = tensors.pop(expert)
        return {**tensors, f"{expert}_orig": weight + 1, f"{expert}_mask": (weight != 0).float()}

    edit(tmp_path, with_mask)
    masked = read(tmp_path)
    assert sorted(names(masked)) == sorted(names(plain))
    assert masked.totals == plain.totals


def test_prune_writes_separate_experts(tmp_path: Path) -> None:
    made("mixtral", 0.5).save_pretrained(tmp_path / "a")
    masks = tmp_path / "masks.safetensors"
    assert run(["prune", f"{tmp_path / 'a'}", "--target", "0.8", "-o", f"{tmp_path / 'b'}"]) == 0
    assert run(["report", f"{tmp_path / 'b'}", "--active-masks", f"{masks}", "-o", f"{tmp_path / 'b.txt'}"]) == 0
    before, pruned = (load_file(tmp_path / name / FILE) for name in "ab")
    assert before.keys() == pruned.keys()
    assert int((pruned[f"{EXPERTS['mixtral']}.weight"] != 0).sum()) < int(
        (before[f"{EXPERTS['mixtral']}.weight"] != 0).sum()
    )
    assert analyze_graph(load(tmp_path / "a", LoadOptions(masks=masks))).totals == read(tmp_path / "b").totals
    assert transformers.MixtralForCausalLM.from_pretrained(tmp_path / "b") is not None


@pytest.mark.parametrize("name", ["vit", pytest.param("mixtral", marks=pytest.mark.slow)])
def test_repair_keeps_the_names_of_the_file(tmp_path: Path, name: str) -> None:
    made(name).save_pretrained(tmp_path / "a")
    assert run(["repair", f"{tmp_path / 'a'}", "-o", f"{tmp_path / 'b'}"]) == 0
    before, after = read(tmp_path / "a"), read(tmp_path / "b")
    assert load_file(tmp_path / "a" / FILE).keys() == load_file(tmp_path / "b" / FILE).keys()
    assert after.totals.active == after.totals.kept == before.totals.active


def test_gradients_reach_the_tensors_of_the_file(tmp_path: Path) -> None:
    made("mixtral").save_pretrained(tmp_path)
    model = open_model_file(tmp_path, OPTIONS).module()
    model(IDS, use_cache=False).logits.abs().sum().backward()
    gradient = stored_tensors(model)["model.layers.0.block_sparse_moe.gate.weight"].grad
    assert gradient is not None
    experts = [t for n, t in stored_tensors(model).items() if ".experts." in n]
    assert len(experts) == 4 * 3
    assert any(t.grad is not None and bool(t.grad.any()) for t in experts)


def test_extra_tensors_are_noted(tmp_path: Path) -> None:
    made("albert").save_pretrained(tmp_path)
    before = read(tmp_path)
    extra = {"albert.pooler.weight": torch.ones(16, 16), "rotary.inv_freq": torch.ones(4)}
    edit(tmp_path, lambda tensors: {**tensors, **extra})
    found = read(tmp_path)
    assert found.totals == before.totals
    assert any(
        "2 tensors of the file are not in the model and ignored" in note and "albert.pooler.weight" in note
        for note in found.notes
    )


def test_layers_beyond_the_config_are_noted(tmp_path: Path) -> None:
    made("llama").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1, "layer_types": None}))
    assert any("model.layers.1.input_layernorm.weight" in note for note in read(tmp_path).notes)


def test_experts_are_not_stacked(tmp_path: Path) -> None:
    """Index maps of stacked experts would need many times the memory of the weights."""
    made("mixtral").save_pretrained(tmp_path)
    nodes = load(tmp_path, OPTIONS).nodes
    weights = [(node.op, node.shape) for node in nodes if isinstance(node.op, Weight) and ".experts." in node.op.layer]
    assert len(weights) == 4 * 3
    assert all(op.view.index is None and len(shape) == 2 for op, shape in weights)
