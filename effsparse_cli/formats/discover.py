"""Find the models in a folder: files with the content or the suffix of a model, and Hugging Face folders. Only the
first bytes of a file and the directory of a zip archive are read."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

from effsparse_cli.errors import EffsparseError
from effsparse_cli.formats.sniff import sniff

SUFFIXES = (".onnx", ".pt", ".pt2", ".pth", ".ckpt", ".safetensors")
"""Suffixes of model files. Such files are reported even if they cannot be read."""
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""First bytes of torch.save files before they were zip archives. Other pickles are not models."""
TRAINING = re.compile(r"(optimizer|scheduler|scaler|rng_state.*|training_args)\.(pt|pth|bin)")
"""Files that a trainer saves next to the weights."""
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
)
"""Weight files of a Hugging Face folder, by priority."""
NAMED_WEIGHTS = re.compile(r"(diffusion_)?(pytorch_)?(model|adapter_model)[-.\w]*\.bin")
LARGEST_INDEX = 1 << 26


def looks_like_model(path: Path) -> bool:
    """Return whether a file has the name or the content of a model. Files that contain only masks, and files that
    trainers save next to a model, do not count."""
    if TRAINING.fullmatch(path.name) and (path.parent / "trainer_state.json").exists():
        return False
    named = path.suffix.lower() in SUFFIXES
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return named
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return named  # report broken links
    if _has_only_masks(path, head):
        return False
    return named or NAMED_WEIGHTS.fullmatch(path.name) is not None or _is_model(path, head)


def folder_weights(folder: Path) -> list[Path] | None:
    """Return the weight files of a Hugging Face folder, with their index; None for any other folder."""
    chosen = next((folder / name for name in WEIGHTS if os.path.lexists(folder / name)), None)
    if chosen is None:
        others = sorted(folder.glob("*.safetensors"))
        chosen = others[0] if len(others) == 1 else None
    if chosen is None or not (chosen.name.endswith(".json") or _is_config(folder / "config.json", chosen)):
        return None
    return [chosen, *(folder / name for name in _read_shard_names(chosen))] if chosen.suffix == ".json" else [chosen]


def _is_config(config: Path, chosen: Path) -> bool:
    """Return whether config.json describes a model: other projects have one too."""
    if chosen.name in WEIGHTS:
        return os.path.lexists(config)
    return {"model_type", "architectures"} & _read_json(config).keys() != set()


def _read_shard_names(index: Path) -> list[str]:
    names = _read_json(index).get("weight_map")
    shards = names.values() if isinstance(names, dict) else ()
    return [name for name in dict.fromkeys(x for x in shards if isinstance(x, str)) if "/" not in name]


def _read_json(file: Path) -> dict[str, object]:
    try:
        if not file.is_file() or file.stat().st_size > LARGEST_INDEX:
            return {}
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_model(path: Path, head: bytes) -> bool:
    """Return whether the content is that of a model. A pickle that torch did not write is not, nor is a file whose
    first bytes only happen to look like ONNX or safetensors."""
    if head.startswith(b"\x80") and head[8:9] != b"{":
        return head.startswith(LEGACY)
    if head[8:9] == b"{" and not _header_fits(path, head):
        return False
    if not head.startswith((b"PK", b"\x80", b"\x08")) and head[8:9] != b"{":
        return False
    try:
        return bool(sniff(path))
    except EffsparseError:
        return False


def _header_fits(path: Path, head: bytes) -> bool:
    return 2 <= int.from_bytes(head[:8], "little") <= path.stat().st_size - 8


def _has_only_masks(path: Path, head: bytes) -> bool:
    """Return whether a safetensors file contains only booleans, as --active-masks writes it."""
    if head[8:9] != b"{" or not _header_fits(path, head) or int.from_bytes(head[:8], "little") > LARGEST_INDEX:
        return False
    with path.open("rb") as file:
        file.seek(8)
        text = file.read(int.from_bytes(head[:8], "little"))
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        return False
    entries = [entry for name, entry in header.items() if name != "__metadata__"] if isinstance(header, dict) else []
    return bool(entries) and all(isinstance(entry, dict) and entry.get("dtype") == "BOOL" for entry in entries)
