"""A config.json before transformers sees it: special numbers are decoded, settings that change no path or could run or
fetch something are left out, and numbers that the stored tensors cannot bear out are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.torch.arch.huggingface.limits import Limits

# How weights are packed, their width, and which kernels run: none of it changes a path.
LEFT_OUT = (
    "auto_map", "trust_remote_code", "quantization_config", "compression_config", "dtype", "torch_dtype",
    "_name_or_path", "name_or_path", "kernel_config", "use_kernels", "hub_kernels",
)  # fmt: skip
KERNELS = ("attn_implementation", "experts_implementation")
SWITCHED_OFF = ("use_cache", "output_attentions", "output_hidden_states", "use_pretrained_backbone")
SPECIAL = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
DEEPEST = 32
# Each of these has tensors of its own, or makes a list as long as it is large.
LAYERS = re.compile(r"(^|_)(layers?|blocks?|depths?|stages?|levels?)($|_(?!.*(size|length|dim|window|id)s?$))")
COUNTS = re.compile(r"(^|_)(experts?|heads?|groups?|labels?|queries|codebooks?)$")
SHARED = 100
"""Layers beyond the number of stored tensors: some models use one layer many times."""
LARGEST_COUNT = 1_000_000
LARGEST = 1 << 40


def cleaned(config: Mapping[str, Any], limits: Limits | None = None) -> dict[str, Any]:
    """What is handed to transformers."""
    decoded = _decoded(config, DEEPEST)
    if limits is not None:
        _check(decoded, limits)
    plain: dict[str, Any] = _plain(decoded)
    return {**plain, "use_cache": False}


def _decoded(value: Any, depth: int) -> Any:
    """transformers writes infinities as {"__float__": "Infinity"}, since JSON has none."""
    if not isinstance(value, Mapping | list):
        return value
    if not depth:
        raise LoadError(f"config.json is nested more than {DEEPEST} levels deep. Fetch it again.")
    if isinstance(value, list):
        return [_decoded(each, depth - 1) for each in value]
    if set(value) == {"__float__"} and value["__float__"] in SPECIAL:
        return SPECIAL[value["__float__"]]
    return {key: _decoded(each, depth - 1) for key, each in value.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    kept = {k: v for k, v in value.items() if k not in LEFT_OUT and not any(kernel in str(k) for kernel in KERNELS)}
    return {k: False if k in SWITCHED_OFF else _plain(v) for k, v in kept.items()}


def _check(config: Mapping[str, Any], limits: Limits) -> None:
    for key, number in _numbers(config, ""):
        most = LARGEST
        if LAYERS.search(key):
            most = limits.tensors + SHARED
        elif COUNTS.search(key):
            most = LARGEST_COUNT
        if number > most:
            shown = f"{number:,}" if number < 10**15 else "more than 10^15"
            raise RefusedError(
                f"config.json says {key} = {shown}, too large for the {limits.tensors:,} tensors that are stored. Does "
                "it belong to these files?"
            )


def _numbers(value: Any, key: str) -> Iterator[tuple[str, int]]:
    """All integers with the names that they stand under."""
    if type(value) is int:
        yield key, abs(value)
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, key)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _numbers(each, str(name))
