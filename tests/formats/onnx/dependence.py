"""Confirms what lowering says about an operator: changing input elements that do not matter to an output element must
not change a bit of it."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.graph.verify import verify
from tests.formats.onnx.probes import opaque_labels, relevant

Inputs = Mapping[str, Any]
Run = Callable[[Inputs], list[Any]]

TRIALS = 3
OUTPUT_ELEMENTS = 3
RANDOM = {
    "Bernoulli",
    "RandomNormalLike",
    "RandomUniformLike",
    "RandomNormal",
    "RandomUniform",
    "Multinomial",
    "Dropout",
}


@dataclass(frozen=True)
class Confirmed:
    """Number of input elements that were changed without effect; None if the model could not be run."""

    graph: Graph
    elements: int | None


def lower(model: ModelProto, inputs: Inputs) -> Graph:
    tensors = {value.name for value in model.graph.input if value.type.HasField("tensor_type")}
    shapes = {k: np.shape(a) for k, a in inputs.items() if k in tensors and isinstance(a, np.ndarray | np.generic)}
    graph = build(model, Path("model.onnx"), LoadOptions(input_shapes=shapes))[0]
    verify(graph)
    return graph


def confirm(name: str, model: ModelProto, inputs: Inputs, kernels: bool = True) -> Confirmed:
    """Confirm a case. With `kernels` False, the reference implementation runs the model instead of onnxruntime."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = lower(model, inputs)
        run = runner(model, kernels)
        if run is None or any(node.op_type in RANDOM for node in model.graph.node):
            return Confirmed(graph, None)
        try:
            before = run(inputs)
        except Exception:  # this runtime cannot run the case
            return Confirmed(graph, None)
        if len(before) != len(graph.outputs):
            return Confirmed(graph, None)
        total = 0
        for number, output in enumerate(before):
            if isinstance(output, np.ndarray) and output.size and output.dtype.kind not in "OSU":
                total += _confirm_output(name, model, graph, run, inputs, number, output)
        return Confirmed(graph, total)


def _confirm_output(
    name: str, model: ModelProto, graph: Graph, run: Run, inputs: Inputs, number: int, output: NDArray[Any]
) -> int:
    shape = graph.nodes[graph.outputs[number]].shape
    if shape != output.shape:
        declared = [dim.dim_value for dim in model.graph.output[number].type.tensor_type.shape.dim]
        said = any(opaque_labels(graph)) or graph.notes or declared == list(shape)
        assert said, f"{name}: output {number} has shape {output.shape}, lowered to {shape}"
        return 0
    total = 0
    generator = np.random.default_rng(0)
    for element in random.Random(name).sample(range(output.size), min(OUTPUT_ELEMENTS, output.size)):
        free = {k: ~v for k, v in relevant(graph, number, element).items()}
        count = sum(int(mask.sum()) for mask in free.values())
        moved = [_moves(run, inputs, free, number, element, output, generator) for _ in range(TRIALS if count else 0)]
        assert True not in moved, f"{name}: element {element} of output {number} moved with others than {free}"
        total += count if False in moved else 0
    return total


def _moves(
    run: Run,
    inputs: Inputs,
    free: Mapping[str, Bools],
    number: int,
    element: int,
    before: NDArray[Any],
    generator: np.random.Generator,
) -> bool | None:
    """Return None if the operator does not accept the changed values."""
    arrays = {k: a for k, a in inputs.items() if k in free and isinstance(a, np.ndarray | np.generic)}
    try:
        after = run({**inputs, **{k: _changed(np.asarray(a), free[k], generator) for k, a in arrays.items()}})[number]
    except Exception:  # an index out of range, for example
        return None
    if np.shape(after) != before.shape:
        return None
    return bool(after.reshape(-1)[element].tobytes() != before.reshape(-1)[element].tobytes())


def _changed(array: NDArray[Any], free: Bools, generator: np.random.Generator) -> NDArray[Any]:
    """Return other values of the same type at the free positions."""
    flat = array.reshape(-1).copy()
    noise: NDArray[Any] = generator.normal(size=flat.shape) * 3 + 1
    if flat.dtype == bool:
        noise = noise > 0
    elif flat.dtype.kind in "iu":
        noise = generator.integers(0, 3, flat.shape)
    flat[free] = noise.astype(flat.dtype)[free]
    return flat.reshape(array.shape)


def runner(model: ModelProto, kernels: bool = True) -> Run | None:
    """Return a function that runs the model in onnxruntime, or in the reference implementation if onnxruntime lacks an
    operator."""
    names = [output.name for output in model.graph.output]
    if kernels:
        try:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(model.SerializeToString(), options)
            return lambda feeds: list(session.run(names, dict(feeds)))
        except Exception:
            pass
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception:
        return None
    return lambda feeds: list(evaluator.run(names, dict(feeds)))


def count(found: Confirmed, counts: Counter[str]) -> None:
    counts["models lowered"] += 1
    counts["models with an opaque operator"] += any(opaque_labels(found.graph))
    counts["models that could not be run"] += found.elements is None
    counts["models confirmed"] += bool(found.elements)
    counts["input elements confirmed not to matter"] += found.elements or 0
