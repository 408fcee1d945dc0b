"""Runs models in onnxruntime: for their outputs, for all values, and for their latency."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto, ValueInfoProto

from effsparse_cli.compaction.positions import Array
from effsparse_cli.folding.onnx.run import cannot_run, open_session
from effsparse_cli.folding.onnx.unrunnable import UnrunnableOperators

Feeds = dict[str, Array]
NOT_COMPACTED = "it cannot be compacted"
RUNS, SECONDS = 15, 2.0
ALL_RUNNABLE = UnrunnableOperators()


def session(model: ModelProto, level: str = "ENABLE_ALL") -> Any:
    """Open a session. `level` is one of onnxruntime's optimization levels."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            content: bytes | str = model.SerializeToString()
        except (EncodeError, ValueError):  # too large for one message
            content = str(Path(folder) / "model.onnx")
            onnx.save_model(model, content, save_as_external_data=True, location="model.data")
        try:
            return open_session(content, level)
        except Exception as error:  # onnxruntime has its own exception classes, one per status
            raise cannot_run(error, NOT_COMPACTED) from error


def run(running: Any, feeds: Feeds) -> list[Any]:
    try:
        found: list[Any] = running.run(None, feeds)
    except Exception as error:
        raise cannot_run(error, NOT_COMPACTED) from error
    return found


def run_model(
    model: ModelProto, feeds: Sequence[Feeds], unrunnable: UnrunnableOperators = ALL_RUNNABLE
) -> list[list[Any]]:
    """Return the model's outputs, and the inputs of operators that cannot be run, for each of the feeds."""
    # As in repair: further optimizations round numbers that the model does not round.
    running = session(unrunnable.remove_from(model), level="ENABLE_BASIC")
    names = unrunnable.compared(model, [value.name for value in model.graph.output])
    order = {value.name: i for i, value in enumerate(running.get_outputs())}
    return [[found[order[name]] for name in names] for found in (run(running, each) for each in feeds)]


def observe(model: ModelProto, feeds: Feeds, unrunnable: UnrunnableOperators = ALL_RUNNABLE) -> dict[str, Any]:
    """Return every value of the main graph by name, from one run."""
    seen = deepcopy(unrunnable.remove_from(model))
    names = [name for node in seen.graph.node for name in node.output if name]
    listed = {value.name for value in seen.graph.output}
    seen.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in listed)
    order = [value.name for value in seen.graph.output]
    return dict(zip(order, run(session(seen, level="DISABLE_ALL"), feeds), strict=True))


def latency(models: Sequence[ModelProto], feeds: Feeds) -> list[float]:
    """Return the median time of several runs of each model, in seconds. The models take turns, so that other load on
    the machine affects all of them."""
    sessions = [session(model) for model in models]
    times: list[list[float]] = [[] for _ in models]
    start = time.perf_counter()
    for turn in range(RUNS + 1):
        for running, found in zip(sessions, times, strict=True):
            begin = time.perf_counter()
            run(running, feeds)
            found.append(time.perf_counter() - begin)
        if turn > 2 and time.perf_counter() - start > SECONDS * len(models):
            break
    # The first run includes the preparation of the session.
    return [statistics.median(found[1:]) for found in times]
