"""Models built from a config.json: a folder gives the same counts as the live model, and nothing is downloaded or run
for it."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from effsparse_cli import analyze
from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch.arch.huggingface.build import build_hf
from effsparse_cli.formats.torch.arch.huggingface.conversion import map_weights
from effsparse_cli.formats.torch.arch.huggingface.inputs import infer_shapes
from tests.formats.torch.hf_models import MAKERS, SMALL, llama, thinned

LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30, "num_key_value_heads": 1, **SMALL,
}  # fmt: skip
OPTIONS = LoadOptions()
USUAL = ("llama, tied", "bert", "gpt2", "vit")
"""Models that are tested in every run."""


@pytest.mark.parametrize("name", [n if n in USUAL else pytest.param(n, marks=pytest.mark.slow) for n in MAKERS])
def test_folder_equals_live_model(tmp_path: Path, name: str) -> None:
    made = thinned(name)
    live = analyze(made.model, made.inputs)
    made.model.save_pretrained(tmp_path)
    found = analyze_graph(load(tmp_path, OPTIONS))
    assert found.unknown == ()
    assert [x.counts for x in found.layers] == [x.counts for x in live.layers]
    assert [x.counts for x in found.apart] == [x.counts for x in live.apart]
    stored = load_file(tmp_path / "model.safetensors")
    assert all(x.name in stored or f"{x.name}.weight" in stored for x in (*found.layers, *found.apart))
    assert found.totals.active < found.totals.kept


def test_half_precision(tmp_path: Path) -> None:
    made = thinned("llama")
    made.model.to(torch.bfloat16).save_pretrained(tmp_path)
    live = analyze(made.model, made.inputs)
    assert analyze_graph(load(tmp_path, OPTIONS)).totals == live.totals


def test_base_model_and_model_with_head(tmp_path: Path) -> None:
    """The published files of GPT-2 are those of the base model."""
    made = thinned("gpt2")
    made.model.transformer.save_pretrained(tmp_path / "body")
    config = json.loads((tmp_path / "body" / "config.json").read_text())
    (tmp_path / "body" / "config.json").write_text(json.dumps(config | {"architectures": ["GPT2LMHeadModel"]}))
    assert analyze_graph(load(tmp_path / "body", OPTIONS)).totals == analyze(made.model, made.inputs).totals
    model = build_hf({**config, "architectures": ["GPT2Model"]}, OPTIONS)
    assert map_weights(model, ["transformer.wte.weight"]).renamed == {"wte.weight": "transformer.wte.weight"}


def test_parameters_are_on_the_meta_device() -> None:
    model = build_hf(LLAMA, OPTIONS)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert not model.training
    buffers = dict(model.named_buffers())
    expected = dict(llama().model.named_buffers())
    assert buffers.keys() == expected.keys()
    for name, buffer in buffers.items():
        assert torch.equal(buffer, expected[name])
    assert not nn.Linear(2, 2).weight.is_meta


def test_arguments_override_the_config() -> None:
    model: Any = build_hf(LLAMA, LoadOptions(arch_args={"num_hidden_layers": "1", "tie_word_embeddings": "true"}))
    assert len(model.model.layers) == 1
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_settings_that_change_no_path_are_removed() -> None:
    odd = {
        "_attn_implementation": "flash_attention_2", "quantization_config": {"quant_method": "gptq", "bits": 4},
        "torch_dtype": "float8_e4m3fn", "use_cache": True, "output_hidden_states": True,
    }  # fmt: skip
    model: Any = build_hf({**LLAMA, **odd}, OPTIONS)
    assert not model.config.use_cache
    assert not model.config.output_hidden_states
    assert next(model.parameters()).dtype == torch.float32


def test_config_without_architectures() -> None:
    config = {name: value for name, value in LLAMA.items() if name != "architectures"}
    assert type(build_hf(config, OPTIONS)).__name__ == "LlamaModel"
    named = LoadOptions(arch_args={"architectures": '["LlamaForCausalLM"]'})
    assert type(build_hf(config, named)).__name__ == "LlamaForCausalLM"


@pytest.mark.parametrize("name", MAKERS)
def test_inferred_inputs(name: str) -> None:
    made = MAKERS[name]()
    wanted = {key: tuple(value.shape) for key, value in made.inputs.items() if isinstance(value, torch.Tensor)}
    assert infer_shapes(made.model) == (wanted, [])


UNBUILDABLE: dict[str, tuple[dict[str, Any] | None, type[Exception], str]] = {
    "no config": (None, LoadError, "no config.json .* --arch package.module:factory"),
    "empty": ({}, LoadError, "does not have the model type None"),
    "unknown": ({"model_type": "nosuch", "architectures": ["NoSuch"]}, LoadError, "model type 'nosuch'"),
    "unknown class": ({**LLAMA, "architectures": ["NoSuch"]}, LoadError, "'NoSuch'"),
    "a function": ({**LLAMA, "architectures": ["pipeline"]}, LoadError, "'pipeline'"),
    "its own code": (
        {"model_type": "own", "architectures": ["Own"], "auto_map": {"AutoModel": "modeling_own.Own"}},
        RefusedError,
        "modeling_own.Own.*never run.*--arch package.module:factory",
    ),
    "nonsense": ({**LLAMA, "hidden_size": "wide"}, LoadError, "cannot build the llama model"),
    "impossible": ({**LLAMA, "num_attention_heads": 3}, LoadError, "cannot build the llama model"),
}


@pytest.mark.parametrize("case", UNBUILDABLE)
def test_models_that_cannot_be_built(case: str) -> None:
    config, error, message = UNBUILDABLE[case]
    with pytest.raises(error, match=message):
        build_hf(config, OPTIONS)


def test_code_in_the_folder_is_not_run(tmp_path: Path) -> None:
    config = {"model_type": "own", "architectures": ["Own"], "auto_map": {"AutoModel": "modeling_own.Own"}}
    thinned("llama").model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "modeling_own.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    for trust in (False, True):
        with pytest.raises(RefusedError, match="needs its own code"):
            load(tmp_path, LoadOptions(trust=trust))
    assert not (tmp_path / "canary").exists()


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *given: connections.append(given))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **_: connections.append(given))
    config = {
        "model_type": "detr", "architectures": ["DetrForObjectDetection"], "use_timm_backbone": False,
        "use_pretrained_backbone": True, "backbone": "microsoft/resnet-50", "backbone_config": None,
    }  # fmt: skip
    with contextlib.suppress(LoadError):
        build_hf(config, OPTIONS)
    assert connections == []


def test_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(LoadError, match="pip install transformers"):
        build_hf(LLAMA, OPTIONS)


def test_tensors_of_another_model(tmp_path: Path) -> None:
    thinned("llama").model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3, "attention_bias": True}))
    with pytest.raises(
        LoadError, match=r"\d+ tensors of the model are not in the file: model.layers.0.self_attn.q_proj.bias"
    ):
        load(tmp_path, OPTIONS)
