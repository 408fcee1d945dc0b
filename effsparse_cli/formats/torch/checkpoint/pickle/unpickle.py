"""Read a pickle as plain data, and describe what is wrong with it otherwise."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.torch.checkpoint.pickle.inert import StorageRef, is_harmful
from effsparse_cli.formats.torch.checkpoint.pickle.machine import ExcessiveError, Machine
from effsparse_cli.formats.torch.checkpoint.pickle.opcodes import run


@dataclass(frozen=True)
class Unpickled:
    """The content of a pickle. `global_names` are the classes and functions that it refers to, in order; `storages` its
    storages by key; `sources` the source files of some classes."""

    content: Any
    global_names: tuple[str, ...]
    storages: Mapping[str, StorageRef]
    sources: Mapping[str, str]


def unpickle(data: bytes, where: str) -> Unpickled:
    """Read a pickle; `where` is the file, for messages."""
    return unpickle_next(io.BytesIO(data), where)


def unpickle_next(file: BinaryIO, where: str) -> Unpickled:
    """Read the pickle at the current position of the file, and move past it."""
    machine = Machine()
    content, failure = None, None
    try:
        content = run(machine, file)
    except Exception as error:
        failure = error
    harmful = [name for name in machine.names if is_harmful(name)]
    if harmful:
        raise RefusedError(
            f"{where} refers to {', '.join(harmful[:8])}, which no checkpoint needs: it is made to run code on the "
            "machine that loads it. None of its code was run. Do not load it elsewhere either."
        )
    if isinstance(failure, ExcessiveError):
        raise LoadError(f"{where} is refused: its pickle would need far more memory or time than that of a checkpoint.")
    if failure is not None:
        raise LoadError(
            f"{where} is damaged or truncated: its pickle cannot be read ({_first_line(failure)}). Download it again."
        ) from failure
    return Unpickled(content, tuple(machine.names), machine.storages, machine.sources)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
