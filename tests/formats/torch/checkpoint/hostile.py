"""Files that do harm when they are unpickled, each with a canary: a file that is created if any code runs."""

from __future__ import annotations

import builtins
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Harmful:
    """Calls a function when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def calls(canary: Path) -> dict[str, Harmful]:
    return {
        "os.system": Harmful(os.system, f"touch {canary}"),
        "os.mkdir": Harmful(os.mkdir, str(canary)),
        "eval": Harmful(builtins.eval, f"open({str(canary)!r}, 'w').close()"),
        "exec": Harmful(builtins.exec, f"open({str(canary)!r}, 'w').close()"),
        "open": Harmful(builtins.open, str(canary), "w"),
        "__import__": Harmful(builtins.__import__, "antigravity"),
        "Popen": Harmful(subprocess.Popen, ["touch", str(canary)]),
    }


def embeddings(harmful: Harmful) -> dict[str, Any]:
    """Return contents with the object at different positions."""
    module: Any = nn.Sequential(nn.Linear(4, 3))
    module.extra = harmful
    state: dict[str, Any] = dict(nn.Linear(4, 3).state_dict())
    return {
        "alone": harmful,
        "in a state_dict": {**state, "x": harmful},
        "next to a state_dict": {"state_dict": state, "hyper_parameters": [harmful]},
        "in a module": module,
        "as a key": {**state, (harmful,): 1},
    }


def rewritten(path: Path, change: Callable[[str, bytes], bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Rewrite a zip with other contents or compression, and correct checksums."""
    with zipfile.ZipFile(path) as archive:
        members = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_pickle(path: Path, data: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    """Write a torch.save file with another pickle in it."""
    torch.save({"weight": torch.ones(2, 2)}, path)
    rewritten(path, lambda name, content: data if name.endswith("data.pkl") else content, compression)
