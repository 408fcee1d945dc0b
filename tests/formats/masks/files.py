"""Mask files as users write them, and what a model keeps under them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from effsparse_cli.formats import LoadOptions, load

Array = NDArray[Any]
RANDOM = np.random.default_rng(7)
MASKS = {"fc1": RANDOM.random((6, 8)) < 0.5, "fc2": RANDOM.random((4, 6)) < 0.5}


def as_npz(masks: Mapping[str, Array], path: Path) -> Path:
    np.savez(path, allow_pickle=False, **masks)
    return path


def as_safetensors(masks: Mapping[str, Array], path: Path) -> Path:
    save_file(dict(masks), path)
    return path


def as_torch(masks: Mapping[str, Array], path: Path) -> Path:
    torch.save({name: torch.from_numpy(mask) for name, mask in masks.items()}, path)
    return path


def as_legacy_torch(masks: Mapping[str, Array], path: Path) -> Path:
    content = {name: torch.from_numpy(mask) for name, mask in masks.items()}
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


def as_sparsifier(masks: Mapping[str, Array], path: Path) -> Path:
    state: Any = defaultdict(dict)
    state |= {f"{name}.weight": {"mask": torch.from_numpy(mask)} for name, mask in masks.items()}
    torch.save({"state": state, "groups": [{"tensor_fqn": name} for name in state]}, path)
    return path


def as_checkpoint(masks: Mapping[str, Array], path: Path) -> Path:
    torch.save({"epoch": 3, "masks": {name: torch.from_numpy(mask) for name, mask in masks.items()}}, path)
    return path


WRITERS: dict[str, Callable[[Mapping[str, Array], Path], Path]] = {
    "npz": as_npz,
    "safetensors": as_safetensors,
    "torch": as_torch,
    "legacy torch": as_legacy_torch,
    "sparsifier": as_sparsifier,
    "checkpoint": as_checkpoint,
}


def kept(model: Path, **options: Any) -> dict[str, Array]:
    return {name: layer.kept() for name, layer in load(model, LoadOptions(**options)).layers.items()}


def notes(model: Path, **options: Any) -> str:
    return "\n".join(load(model, LoadOptions(**options)).notes)
