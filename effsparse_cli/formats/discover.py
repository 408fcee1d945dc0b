"""What in a folder is a model: files by their content or by a suffix that only models have, and Hugging Face folders.
Nothing is parsed here but the first bytes of a file and the index of a zip archive."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

from effsparse_cli.errors import EffsparseError
from effsparse_cli.formats.sniff import sniff

SUFFIXES = (".onnx", ".pt", ".pt2", ".pth", ".ckpt", ".safetensors")
"""Files that are said to be models by their name: they are reported even if they cannot be read."""
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How torch.save began its files before they were zip archives. Other pickles are not models."""
TRAINING = re.compile(r"(optimizer|scheduler|scaler|rng_state.*|training_args)\.(pt|pth|bin)")
"""What a trainer saves beside the weights."""
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
)
"""The weights of a Hugging Face folder: the first that is there is read."""
NAMED_WEIGHTS = re.compile(r"(diffusion_)?(pytorch_)?(model|adapter_model)[-.\w]*\.bin")
LARGEST_INDEX = 1 << 26


def looks_like_model(path: Path) -> bool:
    """A file named like a model, or one that is a model under another name. Files that hold masks alone, and what
    trainers save beside a model, are none."""
    if TRAINING.fullmatch(path.name) and (path.parent / "trainer_state.json").exists():
        return False
    try:
        status = path.stat()
    except OSError:
        return path.suffix.lower() in SUFFIXES  # a broken link is reported
    if not stat.S_ISREG(status.st_mode):
        return path.suffix.lower() in SUFFIXES
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return path.suffix.lower() in SUFFIXES
    if _holds_masks_alone(path, head):
        return False
    return path.suffix.lower() in SUFFIXES or NAMED_WEIGHTS.fullmatch(path.name) is not None or _is_model(path, head)


def folder_weights(folder: Path) -> list[Path] | None:
    """The files that hold the weights of a Hugging Face folder and the index of them; None for any other folder."""
    chosen = next((folder / name for name in WEIGHTS if os.path.lexists(folder / name)), None)
    if chosen is None:
        others = sorted(folder.glob("*.safetensors"))
        chosen = others[0] if len(others) == 1 else None
    if chosen is None or not (chosen.name.endswith(".json") or _is_config(folder / "config.json", chosen)):
        return None
    return [chosen, *(folder / name for name in _listed(chosen))] if chosen.suffix == ".json" else [chosen]


def _is_config(config: Path, chosen: Path) -> bool:
    """Other projects have a config.json too: it counts beside weights of the usual name, or if it names a model."""
    if chosen.name in WEIGHTS:
        return os.path.lexists(config)
    return {"model_type", "architectures"} & _table(config).keys() != set()


def _listed(index: Path) -> list[str]:
    names = _table(index).get("weight_map")
    found = names.values() if isinstance(names, dict) else ()
    return [name for name in dict.fromkeys(x for x in found if isinstance(x, str)) if "/" not in name]


def _table(file: Path) -> dict[str, object]:
    try:
        if not file.is_file() or file.stat().st_size > LARGEST_INDEX:
            return {}
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_model(path: Path, head: bytes) -> bool:
    """By content. A pickle that torch did not write, or any file whose first bytes allow no other reading than an ONNX
    model or a header of safetensors by chance, is none."""
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


def _holds_masks_alone(path: Path, head: bytes) -> bool:
    """A safetensors file of booleans and nothing else, as --active-masks writes it."""
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
