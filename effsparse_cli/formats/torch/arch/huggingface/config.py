"""Prepare a config.json for transformers: decode special numbers, remove settings that change no path or could run or
download something, and limit the cost of building: a small file can describe a model that needs hours and terabytes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.torch.constants.evaluate import results_of

SPARE_ELEMENTS = 1 << 22
"""For parameters that are not in the file: tables that the library computes."""
SPARE_MODULES = 20_000
SPARE_BYTES = 1 << 30
"""For buffers, such as masks over positions."""
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


@dataclass(frozen=True)
class Limits:
    """The number of tensors in the file, and of the elements that they can represent, down to one bit each."""

    tensors: int
    elements: int

    @classmethod
    def of(cls, stored: Mapping[str, torch.Tensor]) -> Limits:
        sizes = (t.numel() if t.is_floating_point() else t.numel() * t.element_size() * 8 for t in stored.values())
        return cls(len(stored), sum(sizes))


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses to allocate more memory for tensors than `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.room = room

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.room -= _size(func, args, kwargs or {})
        if self.room < 0:
            raise RefusedError(
                "building the model of config.json needs far more memory than its files. Check that they match."
            )
        return func(*args, **(kwargs or {}))


def _size(func: Any, args: Any, kwargs: dict[str, Any]) -> int:
    """Return the bytes of the results of an operator without running it; views and meta tensors need none."""
    operands = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    if any(t.is_meta for t in operands) or func.is_view or kwargs.get("device") == torch.device("meta"):
        return 0
    try:
        made = results_of(func, args, kwargs)
    except Exception:
        return 0
    return sum(t.numel() * t.element_size() for t in made if isinstance(t, torch.Tensor))


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """Count modules and parameters while they are made, and refuse too many."""
    modules, elements = 50 * limits.tensors + SPARE_MODULES, 8 * limits.elements + SPARE_ELEMENTS
    make, register = nn.Module.__init__, nn.Module.register_parameter

    def count_module(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        nonlocal modules
        modules -= 1
        if modules < 0:
            raise RefusedError(
                f"the model of config.json has far more layers than its files have tensors ({limits.tensors:,}). Check "
                "that they belong together."
            )
        make(module, *args, **kwargs)

    def count_parameter(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal elements
        elements -= parameter.numel() if parameter is not None else 0
        if elements < 0:
            raise RefusedError(
                f"the model of config.json has far more parameters than its files have elements ({limits.elements:,}). "
                "Check that they belong together."
            )
        register(module, name, parameter)

    nn.Module.__init__, nn.Module.register_parameter = count_module, count_parameter  # type: ignore[assignment,method-assign]
    try:
        with _Watch(SPARE_BYTES + 8 * limits.elements):
            yield
    finally:
        nn.Module.__init__, nn.Module.register_parameter = make, register  # type: ignore[method-assign]


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
