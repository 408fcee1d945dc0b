"""Tiny Hugging Face models, pruned at random, with the inputs that their folder is read with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from tests.formats.torch.perturbed import thin
from tests.torchvision_models import models

models()  # transformers imports torchvision, which needs its operators defined first
transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
IDS = torch.zeros((1, 8), dtype=torch.int64)
IMAGE = torch.zeros((1, 3, 16, 16))


@dataclass(frozen=True)
class Made:
    model: Any
    inputs: dict[str, Any]


def llama(tied: bool = False) -> Made:
    config = transformers.LlamaConfig(vocab_size=30, num_key_value_heads=1, tie_word_embeddings=tied, **SMALL)
    return Made(transformers.LlamaForCausalLM(config), {"input_ids": IDS, "use_cache": False})


def bert() -> Made:
    config = transformers.BertConfig(vocab_size=30, max_position_embeddings=16, num_labels=3, **SMALL)
    return Made(transformers.BertForSequenceClassification(config), {"input_ids": IDS})


def gpt2() -> Made:
    config = transformers.GPT2Config(
        vocab_size=30, n_embd=16, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    return Made(transformers.GPT2LMHeadModel(config), {"input_ids": IDS, "use_cache": False})


def vit() -> Made:
    config = transformers.ViTConfig(image_size=16, patch_size=8, num_labels=3, **SMALL)
    return Made(transformers.ViTForImageClassification(config), {"pixel_values": IMAGE})


def t5() -> Made:
    config = transformers.T5Config(
        vocab_size=30, d_model=16, d_kv=8, num_heads=2, num_layers=1, d_ff=32, decoder_start_token_id=0
    )
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS, "use_cache": False}
    return Made(transformers.T5ForConditionalGeneration(config), inputs)


def clip() -> Made:
    text = {"vocab_size": 30, "max_position_embeddings": 16, "eos_token_id": 2, **SMALL}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={"image_size": 16, "patch_size": 8, **SMALL}, projection_dim=8
    )
    return Made(transformers.CLIPModel(config), {"input_ids": IDS, "pixel_values": IMAGE})


MAKERS: dict[str, Callable[[], Made]] = {
    "llama": llama,
    "llama, tied": lambda: llama(tied=True),
    "bert": bert,
    "gpt2": gpt2,
    "vit": vit,
    "t5": t5,
    "clip": clip,
}


def thinned(name: str, density: float = 0.15) -> Made:
    torch.manual_seed(0)
    made = MAKERS[name]()
    model: nn.Module = made.model.eval()
    thin(model, density)
    return made
