"""Input shapes of Hugging Face models: from the configuration, from the preprocessor, or the usual ones of the family,
which are noted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch.arch.huggingface.config import LAYERS
from effsparse_cli.formats.torch.arch.huggingface.inputs import infer_shapes
from tests.formats.torch.hf_families import FAMILIES


def without_size(name: str) -> Any:
    model = FAMILIES[name].build()
    model.config.__dict__.pop("image_size", None)
    return model


@pytest.mark.parametrize(
    ("name", "side"), [("resnet", 224), ("regnet", 224), ("poolformer", 224), ("segformer", 512), ("superpoint", 240)]
)
def test_usual_image_sizes(name: str, side: int) -> None:
    shapes, notes = infer_shapes(without_size(name))
    assert shapes == {"pixel_values": (1, 3, side, side)}
    assert notes == [f"image size {side}x{side}, the usual one of {name}: config.json does not state it"]


@pytest.mark.parametrize(
    ("preparation", "sides"),
    [
        ({"size": {"height": 32, "width": 48}}, (32, 48)),
        ({"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}, (32, 32)),
        ({"size": 64}, (64, 64)),
        ({"size": [16, 24]}, (16, 24)),
        ({"size": "large"}, (224, 224)),
        ({"size": {"height": -1, "width": 10}}, (224, 224)),
        ({"size": {"longest_edge": 10}}, (224, 224)),
    ],
)
def test_image_sizes_of_the_preprocessor(preparation: dict[str, Any], sides: tuple[int, int]) -> None:
    shapes, (note,) = infer_shapes(without_size("resnet"), preparation)
    assert shapes == {"pixel_values": (1, 3, *sides)}
    assert ("preprocessor_config.json" in note) == (sides != (224, 224))


def test_assumed_size_is_noted(tmp_path: Path) -> None:
    without_size("resnet").save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 32, "width": 32}}))
    found = analyze_graph(load(tmp_path, LoadOptions()))
    assert "image size 32x32, from preprocessor_config.json: config.json does not state it" in found.notes


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("wav2vec2", {"input_values": (1, 650)}),
        ("audio_spectrogram_transformer", {"input_values": (1, 24, 16)}),
        ("whisper", {"input_features": (1, 8, 32), "decoder_input_ids": (1, 8)}),
        ("speech_to_text", {"input_features": (1, 64, 8), "decoder_input_ids": (1, 8)}),
    ],
)
def test_audio(name: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert infer_shapes(FAMILIES[name].build()) == (shapes, [])


def test_settings_that_count_layers() -> None:
    for key in ("num_hidden_layers", "n_layer", "depths", "encoder_layers", "num_blocks", "num_layers_per_stage"):
        assert LAYERS.search(key), key
    for key in ("block_size", "layers_window_size", "max_position_embeddings", "vocab_size", "layer_dims", "player_id"):
        assert not LAYERS.search(key), key
