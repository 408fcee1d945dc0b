"""Tiny Hugging Face models lower without an unknown operator, and inactive weights change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.formats.torch.cases import r
from tests.formats.torch.perturbed import idle_weights_do_nothing, lowered, thin
from tests.torchvision_models import models

models()  # transformers imports torchvision, which needs its operators defined first
transformers = pytest.importorskip("transformers")

IDS = torch.arange(6)[None]
SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
Made = tuple[nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]


def bert() -> Made:
    config = transformers.BertConfig(vocab_size=30, max_position_embeddings=16, **SMALL)
    return transformers.BertForSequenceClassification(config), (IDS,), {}


def gpt2() -> Made:
    config = transformers.GPT2Config(
        vocab_size=30, n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config), (IDS,), {"use_cache": False}


def llama(attention: str = "sdpa") -> Made:
    config = transformers.LlamaConfig(vocab_size=30, num_key_value_heads=1, attn_implementation=attention, **SMALL)
    return transformers.LlamaForCausalLM(config), (IDS,), {"use_cache": False}


def vit() -> Made:
    config = transformers.ViTConfig(image_size=16, patch_size=8, **SMALL)
    return transformers.ViTForImageClassification(config), (r(1, 3, 16, 16),), {}


def t5() -> Made:
    config = transformers.T5Config(vocab_size=30, d_model=16, d_kv=8, num_heads=2, num_layers=1, d_ff=32)
    kwargs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :3], "use_cache": False}
    return transformers.T5ForConditionalGeneration(config), (), kwargs


MODELS: dict[str, Callable[[], Made]] = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "llama, attention written out": lambda: llama("eager"),
    "vit": vit,
    "t5": t5,
}


@pytest.mark.parametrize("name", MODELS)
def test_inactive_weights_change_nothing(name: str) -> None:
    model, args, kwargs = MODELS[name]()
    thin(model, 0.4)
    idle_weights_do_nothing(model, args, kwargs)


def test_conv1d_of_gpt2_is_stored_input_first() -> None:
    model, args, kwargs = gpt2()
    layers = lowered(model, args, kwargs).layers
    assert layers["transformer.h.0.attn.c_attn"].shape == (16, 48)
    assert not layers["transformer.wte"].embedding
    assert "lm_head" not in layers


def test_a_cache_that_cannot_be_flattened_is_noted() -> None:
    model, args, _ = gpt2()
    assert "outputs of type DynamicCache cannot be inspected and are ignored" in lowered(model, args).notes
