"""A Hugging Face folder becomes its tensors and its configuration: one file of weights, or the shards that an index
lists, checked against the index. Nothing outside of the folder is read, and nothing is fetched."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from effsparse_cli import files
from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.discover import WEIGHTS
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.safetensors import read_safetensors
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors

CONFIG = "config.json"
PREPARATION = "preprocessor_config.json"
LARGEST_JSON = 1 << 28
LARGEST_CONFIG = 1 << 24

Tensors = dict[str, torch.Tensor]


def read_folder(path: Path, options: LoadOptions) -> Checkpoint:
    config, preparation = (
        _json(path / name, LARGEST_CONFIG) if (path / name).exists() else None for name in (CONFIG, PREPARATION)
    )
    tensors: Tensors = {}
    for file in weight_files(path):
        found = _read(file, options)
        twice = next((name for name in found if name in tensors), None)
        if twice is not None:
            raise LoadError(
                f"{path}: the tensor {twice} stands in two files, {file.name} the second. Remove one of them."
            )
        tensors |= found
    _check_listed(path, tensors)
    return Checkpoint(tensors, config=config, preparation=preparation)


def weight_files(path: Path) -> list[Path]:
    """The files that hold the folder's tensors, all there and inside of it."""
    chosen = _chosen(path)
    if not chosen.name.endswith(".json"):
        return [inside(path, chosen.name)]
    names = list(dict.fromkeys(_weight_map(chosen).values()))
    files = [inside(path, name) for name in names]
    missing = [file.name for file in files if not os.path.isfile(file)]
    if missing:
        there = f"{len(missing)} of the {len(files)} files that {chosen.name} lists"
        raise LoadError(f"{path}: {there} are missing: {_some(missing)}. Fetch them, or download the folder again.")
    return files


def _chosen(path: Path) -> Path:
    found = next((path / name for name in WEIGHTS if (path / name).exists()), None)
    if found is not None:
        return found
    others = sorted(path.glob("*.safetensors"))
    if len(others) == 1:
        return others[0]
    what = f"{len(others)} safetensors files and no index of them" if others else "no weights"
    raise LoadError(
        f"{path} is a folder with {what}: there is no {' nor '.join(WEIGHTS[:4])}. Give one file, or a Hugging Face "
        "folder, as save_pretrained writes it."
    )


def _weight_map(index: Path) -> dict[str, str]:
    table = _json(index).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise LoadError(f"{index} is no index of shards: it has no weight_map of names. Fetch the folder again.")
    return table


def _check_listed(path: Path, tensors: Mapping[str, object]) -> None:
    chosen = _chosen(path)
    if chosen.name.endswith(".json"):
        absent = [name for name in _weight_map(chosen) if name not in tensors]
        if absent:
            raise LoadError(
                f"{path}: {chosen.name} lists {len(absent)} tensors that no shard holds: {_some(absent)}. The index "
                "and the shards are of different models; fetch the folder again."
            )


def _read(file: Path, options: LoadOptions) -> Tensors:
    with files.note_read(file).open("rb") as opened:
        head = opened.read(64)
    if head.startswith(b"version https://git-lfs"):
        raise LoadError(f"{file} is a Git LFS pointer; fetch the file itself with `git lfs pull`")
    if head.startswith((b"PK", b"\x80")) and head[8:9] != b"{":
        return dict(read_tensors(open_pickled(file), options.key).tensors)
    return read_safetensors(file)


def inside(folder: Path, name: str) -> Path:
    """A link may lead to the blobs of the Hugging Face cache, which stand beside its snapshots, and nowhere else."""
    file, home = folder / name, folder.resolve()
    real = file.resolve()
    allowed = [home, *([home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [])]
    if Path(name).is_absolute() or not any(real.is_relative_to(place) for place in allowed):
        raise RefusedError(f"{folder}: {name} leads out of the folder, to {real}. Put the file itself there.")
    return file


def _json(file: Path, largest: int = LARGEST_JSON) -> dict[str, Any]:
    inside(file.parent, file.name)
    files.note_read(file)
    try:
        if file.stat().st_size > largest:
            raise ValueError(f"it has {file.stat().st_size:,} bytes")
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"{file} cannot be read as JSON ({str(error)[:200]}). Fetch it again.") from error
    if not isinstance(content, dict):
        raise LoadError(
            f"{file} holds a {type(content).__name__}, where a table of settings should be. Fetch it again."
        )
    return content


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
