"""The error for a model that does not exist: nothing is downloaded, so URLs and names of the Hugging Face Hub need
another step first."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from effsparse_cli.errors import LoadError

URL = re.compile(r"(https?|ftp|s3|gs):/+(.+)")
HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
FILES = (".pt", ".pth", ".pt2", ".bin", ".ckpt", ".onnx", ".safetensors", ".h5", ".gguf")


def absent_error(path: Path) -> LoadError:
    """Return the error for a path without a file, with what to try."""
    url = URL.fullmatch(str(path))
    if url:
        return LoadError(
            f"{url[1]}://{url[2]} is a URL, and effsparse downloads nothing. Download the file, then pass its path"
        )
    if HUB.fullmatch(str(path)) and path.suffix not in FILES and not path.parent.exists():
        return LoadError(
            f"{path} does not exist. If it is a model of the Hugging Face Hub: effsparse downloads nothing. Run "
            f"`hf download {path} --local-dir {path.name}`, then pass the folder {path.name}"
        )
    close = difflib.get_close_matches(path.name, _siblings(path), n=1)
    suggestion = f". Did you mean {path.parent / close[0]}?" if close else ""
    return LoadError(f"{path} does not exist{suggestion}")


def _siblings(path: Path) -> list[str]:
    try:
        return [each.name for each in path.parent.iterdir()]
    except OSError:
        return []
