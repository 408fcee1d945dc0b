"""Hugging Face folders as save_pretrained writes them, for tests of whole commands."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp


@cache
def _made(kind: str, shards: int) -> Path:
    from tests.formats.torch import hf_models

    folder = Path(mkdtemp())
    model = getattr(hf_models, kind)().model
    if shards > 1:
        size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
        model.save_pretrained(folder, max_shard_size=f"{size * 6 // (10 * 1000)}KB")
    else:
        model.save_pretrained(folder)
    return folder


def write_bert(folder: Path, shards: int = 1) -> Path:
    return Path(shutil.copytree(_made("bert", shards), folder))


def write_llama(folder: Path) -> Path:
    return Path(shutil.copytree(_made("llama", 1), folder))
