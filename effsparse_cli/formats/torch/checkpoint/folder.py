"""Read the tensors and the configuration of a Hugging Face folder: one weight file, or the shards that an index lists,
checked against the index. Nothing outside the folder is read, and nothing is downloaded."""

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
MAX_JSON = 1 << 28
MAX_CONFIG = 1 << 24

Tensors = dict[str, torch.Tensor]


def read_folder(path: Path, options: LoadOptions) -> Checkpoint:
    found = (path / CONFIG, path / PREPARATION)
    config, preparation = (_read_json(file, MAX_CONFIG) if file.exists() else None for file in found)
    tensors: Tensors = {}
    for file in weight_files(path):
        shard = _read_shard(file, options)
        duplicate = next((name for name in shard if name in tensors), None)
        if duplicate is not None:
            raise LoadError(
                f"{path}: tensor {duplicate} is in two files, the second is {file.name}. Remove one of them."
            )
        tensors |= shard
    _check_index(path, tensors)
    return Checkpoint(tensors, config=config, preparation=preparation)


def weight_files(path: Path) -> list[Path]:
    """Return the weight files of a folder, after checking that all exist and are inside it."""
    chosen = _find_weights(path)
    if not chosen.name.endswith(".json"):
        return [check_inside(path, chosen.name)]
    names = list(dict.fromkeys(_read_weight_map(chosen).values()))
    files = [check_inside(path, name) for name in names]
    missing = [file.name for file in files if not os.path.isfile(file)]
    if missing:
        raise LoadError(
            f"{path}: {len(missing)} of the {len(files)} files in {chosen.name} are missing: {_shorten(missing)}. "
            "Download them again."
        )
    return files


def _find_weights(path: Path) -> Path:
    """Return the weight file or the index."""
    usual = next((path / name for name in WEIGHTS if (path / name).exists()), None)
    if usual is not None:
        return usual
    others = sorted(path.glob("*.safetensors"))
    if len(others) == 1:
        return others[0]
    what = f"{len(others)} safetensors files and no index" if others else "no weights"
    raise LoadError(
        f"{path} is a folder with {what}: it has none of {', '.join(WEIGHTS[:4])}. Pass a single file, or a folder "
        "that save_pretrained wrote."
    )


def _read_weight_map(index: Path) -> dict[str, str]:
    table = _read_json(index).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise LoadError(f"{index} is not an index of shards: it has no weight_map. Download the folder again.")
    return table


def _check_index(path: Path, tensors: Mapping[str, object]) -> None:
    chosen = _find_weights(path)
    if chosen.name.endswith(".json"):
        absent = [name for name in _read_weight_map(chosen) if name not in tensors]
        if absent:
            raise LoadError(
                f"{path}: {chosen.name} lists {len(absent)} tensors that no shard contains: {_shorten(absent)}. The "
                "index and the shards are from different models. Download the folder again."
            )


def _read_shard(file: Path, options: LoadOptions) -> Tensors:
    with files.note_read(file).open("rb") as opened:
        head = opened.read(64)
    if head.startswith(b"version https://git-lfs"):
        raise LoadError(f"{file} is a Git LFS pointer. Download the file itself with `git lfs pull`.")
    if head.startswith((b"PK", b"\x80")) and head[8:9] != b"{":
        return dict(read_tensors(open_pickled(file), options.key).tensors)
    return read_safetensors(file)


def check_inside(folder: Path, name: str) -> Path:
    """Return the path of a file of the folder. Links may point into it, or from a snapshot of a cache to its blobs."""
    file, root = folder / name, folder.resolve()
    real = file.resolve()
    allowed = [root, *([root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [])]
    if Path(name).is_absolute() or not any(real.is_relative_to(each) for each in allowed):
        raise RefusedError(f"{folder}: {name} is outside the folder, at {real}. Copy the file into the folder.")
    return file


def _read_json(file: Path, limit: int = MAX_JSON) -> dict[str, Any]:
    check_inside(file.parent, file.name)
    files.note_read(file)
    try:
        if file.stat().st_size > limit:
            raise ValueError(f"it has {file.stat().st_size:,} bytes")
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"{file} cannot be read as JSON ({str(error)[:200]}). Download it again.") from error
    if not isinstance(content, dict):
        raise LoadError(f"{file} contains a {type(content).__name__} instead of a JSON object. Download it again.")
    return content


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
