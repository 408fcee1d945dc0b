"""Models run in onnxruntime: to see what they give, to see every value, and to see how long it takes."""

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
from effsparse_cli.folding.onnx.unknown import Apart

Feeds = dict[str, Array]
FATAL_ONLY = 4
RUNS, SECONDS = 15, 2.0
WHOLE = Apart()


def session(model: ModelProto, level: str = "ENABLE_ALL") -> Any:
    """`level` is one of onnxruntime's levels of optimisation."""
    content = _serialised(model)
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
    except Exception as error:  # onnxruntime raises classes of its own, one per status
        raise _does_not_run(error) from error


def _serialised(model: ModelProto) -> bytes | None:
    """None for a model that is too large to be one message."""
    try:
        return bytes(model.SerializeToString())
    except (EncodeError, ValueError):
        return None


def run(running: Any, feeds: Feeds) -> list[Any]:
    try:
        found: list[Any] = running.run(None, feeds)
    except Exception as error:
        raise _does_not_run(error) from error
    return found


def run_apart(model: ModelProto, feeds: Sequence[Feeds], apart: Apart = WHOLE) -> list[list[Any]]:
    """By inputs, the model's outputs and what enters operators that cannot be run."""
    # As in repair: further optimisations round what the model does not.
    running = session(apart.cut(model), level="ENABLE_BASIC")
    names = apart.compared(model, [value.name for value in model.graph.output])
    order = {value.name: i for i, value in enumerate(running.get_outputs())}
    return [[found[order[name]] for name in names] for found in (run(running, each) for each in feeds)]


def observe(model: ModelProto, feeds: Feeds, apart: Apart = WHOLE) -> dict[str, Any]:
    """Every value of the main graph by name, from one run."""
    seen = ModelProto()
    seen.CopyFrom(apart.cut(model))
    names = [name for node in seen.graph.node for name in node.output if name]
    listed = {value.name for value in seen.graph.output}
    seen.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in listed)
    order = [value.name for value in seen.graph.output]
    return dict(zip(order, run(session(seen, level="DISABLE_ALL"), feeds), strict=True))


def latency(models: Sequence[ModelProto], feeds: Feeds) -> list[float]:
    """The median of several runs of each, in seconds; the models take turns, so that what else the machine does
    befalls all of them."""
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
    # The first run of a session also prepares it.
    return [statistics.median(found[1:]) for found in times]


def _does_not_run(error: Exception) -> LoadError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0][:300] if lines else type(error).__name__
    return LoadError(f"onnxruntime does not run the model, so that it can be neither cut nor checked: {reason}")
