"""A pickle becomes plain data, or an error that says what is wrong with it."""

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
    """`asked` are the names of classes and functions, in the order of asking; `storages` the memory that it refers
    to, by key; `sources` the files that some of the classes were defined in."""

    content: Any
    asked: tuple[str, ...]
    storages: Mapping[str, StorageRef]
    sources: Mapping[str, str]


def unpickle(data: bytes, where: str) -> Unpickled:
    """`where` is the file, for messages."""
    return unpickle_next(io.BytesIO(data), where)


def unpickle_next(file: BinaryIO, where: str) -> Unpickled:
    """The pickle at the file's position, which is behind the pickle afterwards."""
    machine = Machine()
    content, failure = None, None
    try:
        content = run(machine, file)
    except Exception as error:
        failure = error
    harmful = [name for name in machine.names if is_harmful(name)]
    if harmful:
        raise RefusedError(
            f"{where} asks for {', '.join(harmful[:8])}, which no checkpoint has a reason to: it is made to run code "
            "on the machine that loads it. Nothing of it was run. Do not load it elsewhere either."
        )
    if isinstance(failure, ExcessiveError):
        raise LoadError(f"{where} is refused: its pickle would take far more memory or time than a checkpoint's does")
    if failure is not None:
        raise LoadError(f"{where} is damaged or cut: its pickle cannot be read ({_first_line(failure)})") from failure
    return Unpickled(content, tuple(machine.names), machine.storages, machine.sources)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
