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

from effsparse_cli.compact.positions import Array
from effsparse_cli.errors import LoadError

Feeds = dict[str, Array]
FATAL_ONLY = 4
RUNS, SECONDS = 15, 2.0


def session(model: ModelProto, optimised: bool = True) -> Any:
    content = _serialised(model)
    if content is not None:
        return _open(content, optimised)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        onnx.save_model(model, file, save_as_external_data=True, location="model.data")
        return _open(str(file), optimised)


def open_file(path: Path) -> Any:
    return _open(str(path), True)


def _open(model: bytes | str, optimised: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
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


def observe(model: ModelProto, feeds: Feeds) -> dict[str, Any]:
    """Every value of the main graph by name, from one run."""
    seen = ModelProto()
    seen.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output if name]
    listed = {value.name for value in model.graph.output}
    seen.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in listed)
    order = [value.name for value in seen.graph.output]
    return dict(zip(order, run(session(seen, optimised=False), feeds), strict=True))


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
