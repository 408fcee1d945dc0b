"""Infer the input shapes of a Hugging Face model from its configuration files: a few tokens, an image, or audio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from effsparse_cli.errors import RefusedError
from effsparse_cli.formats.torch.arch.huggingface.config import Limits
from effsparse_cli.formats.torch.inputs import TOKENS
from effsparse_cli.graph.primitives import Shape

USUAL_IMAGE = 224
USUAL_IMAGES = {"segformer": 512, "superpoint": 240, "poolformer": 224, "resnet": 224, "regnet": 224}
"""Image sizes of model families whose configuration does not state them."""
FRAMES = 64
"""Minimum number of audio frames: wider than any convolution over frames, except those over positions."""

MAX_ELEMENTS = 1 << 20
"""Limit for an inferred input, unless the model itself is larger."""

Inferred = tuple[dict[str, Shape], list[str]]


def infer_shapes(model: Any, preparation: Mapping[str, Any] | None = None) -> Inferred:
    """Return shapes by input name, as far as they are known, and notes. `preparation` is preprocessor_config.json."""
    config, name = model.config, model.main_input_name
    vision = getattr(config, "vision_config", None)
    shapes: dict[str, Shape] = {}
    notes: list[str] = []
    if name == "input_ids":
        shapes[name] = (1, TOKENS)
    if name == "pixel_values" or (vision is not None and hasattr(model, "logit_scale")):
        shapes["pixel_values"], assumed = _infer_image(config if vision is None else vision, preparation or {})
        notes += assumed
    if name in ("input_values", "input_features"):
        shapes |= {name: audio} if (audio := _infer_audio(config, name)) else {}
    if getattr(config, "is_encoder_decoder", False) and shapes:
        shapes["decoder_input_ids"] = (1, TOKENS)
    return shapes, notes


def check_sizes(shapes: Mapping[str, Shape], limits: Limits) -> None:
    """Refuse shapes that only a damaged configuration can have."""
    for name, shape in shapes.items():
        if math.prod(shape) > max(MAX_ELEMENTS, 4 * limits.elements):
            dims = ",".join(map(str, shape))
            raise RefusedError(
                f"config.json describes an input {name} of shape {dims}. Pass its shape with --input-shape."
            )


def _infer_image(config: Any, preparation: Mapping[str, Any]) -> tuple[Shape, list[str]]:
    channels: Any = getattr(config, "num_channels", None)
    channels = channels if _is_size(channels) else 3
    known = _sides(getattr(config, "image_size", None))
    if known:
        return (1, channels, *known), []
    prepared = _sides(preparation.get("crop_size")) or _sides(preparation.get("size"))
    side = USUAL_IMAGES.get(str(config.model_type), USUAL_IMAGE)
    sides = prepared or (side, side)
    source = "from preprocessor_config.json" if prepared else f"the usual one of {config.model_type}"
    return (1, channels, *sides), [f"image size {'x'.join(map(str, sides))}, {source}: config.json does not state it"]


def _sides(size: Any) -> Shape:
    """Return height and width in any of the usual notations; empty if they are missing."""
    if isinstance(size, Mapping):
        edge = size.get("shortest_edge")
        size = [size.get("height", edge), size.get("width", edge)]
    sides = tuple(size) if isinstance(size, Sequence) and not isinstance(size, str) else (size, size)
    return sides if len(sides) == 2 and all(_is_size(side) for side in sides) else ()


def _is_size(value: object) -> bool:
    return type(value) is int and value > 0


def _infer_audio(config: Any, name: str) -> Shape:
    """Return the shape of a waveform for models that start with convolutions, otherwise of a spectrogram."""
    bands: Any = getattr(config, "num_mel_bins", None)
    kernels, strides = getattr(config, "conv_kernel", None), getattr(config, "conv_stride", None)
    if name == "input_values" and isinstance(kernels, Sequence) and isinstance(strides, Sequence):
        positions: Any = getattr(config, "num_conv_pos_embeddings", None)
        samples = max(FRAMES, 2 * positions) if _is_size(positions) else FRAMES
        for kernel, stride in zip(reversed(kernels), reversed(strides), strict=False):
            if not _is_size(kernel) or not _is_size(stride):
                return ()
            samples = (samples - 1) * stride + kernel
        return (1, samples)
    if name == "input_values" and _is_size(bands) and _is_size(getattr(config, "max_length", None)):
        return (1, config.max_length, bands)
    if _is_size(bands) and _is_size(getattr(config, "max_source_positions", None)):
        return (1, bands, 2 * config.max_source_positions)
    features: Any = getattr(config, "input_feat_per_channel", None)
    return (1, FRAMES, features) if _is_size(features) else ()
