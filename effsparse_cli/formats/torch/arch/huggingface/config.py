"""Prepare a config.json for transformers: decode special numbers, remove settings that change no path or could run or
download something, and refuse numbers that are too large for the stored tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.torch.arch.huggingface.limits import Limits

# Quantisation, dtypes and kernels do not change paths.
REMOVED = (
    "auto_map", "trust_remote_code", "quantization_config", "compression_config", "dtype", "torch_dtype",
    "_name_or_path", "name_or_path", "kernel_config", "use_kernels", "hub_kernels",
)  # fmt: skip
KERNELS = ("attn_implementation", "experts_implementation")
DISABLED = ("use_cache", "output_attentions", "output_hidden_states", "use_pretrained_backbone")
SPECIAL = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
MAX_DEPTH = 32
# Each of these creates tensors, or a list of that length.
LAYERS = re.compile(r"(^|_)(layers?|blocks?|depths?|stages?|levels?)($|_(?!.*(size|length|dim|window|id)s?$))")
COUNTS = re.compile(r"(^|_)(experts?|heads?|groups?|labels?|queries|codebooks?)$")
MAX_SHARED = 100
"""Layers beyond the number of stored tensors: some models use one layer many times."""
MAX_COUNT = 1_000_000
MAX_NUMBER = 1 << 40


def clean_config(config: Mapping[str, Any], limits: Limits | None = None) -> dict[str, Any]:
    """Return the settings for transformers."""
    decoded = _decode(config, MAX_DEPTH)
    if limits is not None:
        _check_numbers(decoded, limits)
    settings: dict[str, Any] = _remove(decoded)
    return {**settings, "use_cache": False}


def _decode(value: Any, depth: int) -> Any:
    """Decode infinities, which transformers writes as {"__float__": "Infinity"}."""
    if not isinstance(value, Mapping | list):
        return value
    if not depth:
        raise LoadError(f"config.json is nested more than {MAX_DEPTH} levels deep. Download it again.")
    if isinstance(value, list):
        return [_decode(each, depth - 1) for each in value]
    if set(value) == {"__float__"} and value["__float__"] in SPECIAL:
        return SPECIAL[value["__float__"]]
    return {key: _decode(each, depth - 1) for key, each in value.items()}


def _remove(value: Any) -> Any:
    if isinstance(value, list):
        return [_remove(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    kept = {k: v for k, v in value.items() if k not in REMOVED and not any(kernel in str(k) for kernel in KERNELS)}
    return {k: False if k in DISABLED else _remove(v) for k, v in kept.items()}


def _check_numbers(config: Mapping[str, Any], limits: Limits) -> None:
    for key, number in _numbers(config, ""):
        limit = MAX_NUMBER
        if LAYERS.search(key):
            limit = limits.tensors + MAX_SHARED
        elif COUNTS.search(key):
            limit = MAX_COUNT
        if number > limit:
            shown = f"{number:,}" if number < 10**15 else "more than 10^15"
            raise RefusedError(
                f"config.json has {key} = {shown}, too large for the {limits.tensors:,} stored tensors. Check that it "
                "belongs to these files."
            )


def _numbers(value: Any, key: str) -> Iterator[tuple[str, int]]:
    """Yield all integers with their keys."""
    if type(value) is int:
        yield key, abs(value)
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, key)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _numbers(each, str(name))
