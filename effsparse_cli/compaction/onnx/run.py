"""Runs models in onnxruntime: for their outputs, for all values, and for their latency."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto, ValueInfoProto

from effsparse_cli.compaction.positions import Array
from effsparse_cli.errors import LoadError
from effsparse_cli.folding.onnx.unrunnable import UnrunnableOperators

Feeds = dict[str, Array]
FATAL_ONLY = 4
RUNS, SECONDS = 15, 2.0
ALL_RUNNABLE = UnrunnableOperators()


def session(model: ModelProto, level: str = "ENABLE_ALL") -> Any:
    """Open a session. `level` is one of onnxruntime's optimization levels."""
    content = _serialized(model)
    if content is not None:
        return _open(content, level)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        onnx.save_model(model, file, save_as_external_data=True, location="model.data")
        return _open(str(file), level)


def _open(model: bytes | str, level: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has its own exception classes, one per status
        raise _cannot_run(error) from error


def _serialized(model: ModelProto) -> bytes | None:
    """Serialize a model; return None if it is too large for one message."""
    try:
        return bytes(model.SerializeToString())
    except (EncodeError, ValueError):
        return None


def run(running: Any, feeds: Feeds) -> list[Any]:
    try:
        found: list[Any] = running.run(None, feeds)
    except Exception as error:
        raise _cannot_run(error) from error
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
    seen = ModelProto()
    seen.CopyFrom(unrunnable.remove_from(model))
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


def _cannot_run(error: Exception) -> LoadError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0][:300] if lines else type(error).__name__
    return LoadError(f"onnxruntime cannot run the model, so it cannot be compacted: {reason}")
