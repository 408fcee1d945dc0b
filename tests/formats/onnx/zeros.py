"""Checks what lowering says about zero: with some inputs zero, the elements of the result that the graph says are zero
must be zero when the model is run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from effsparse_cli.formats.onnx.ops import OPERATORS
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools, Source
from tests.formats.onnx.dependence import Inputs, Run, lower, runner
from tests.formats.onnx.probes import relevant

GATE = "gate"


def find_zeros(graph: Graph, zeros: Collection[str], output: int) -> Bools:
    """Return where an output is zero, by the graph, when these inputs are: a gate that multiplies it does not matter
    there."""
    b = Builder()
    b.layers.update(graph.layers)
    for node in graph.nodes:
        if isinstance(node.op, Source) and node.op.name in zeros:
            b.constant(False, node.shape)
        else:
            b.add(node.op, node.inputs, node.shape)
    result = graph.outputs[output]
    gate = b.source(GATE, b.shape(result))
    return ~relevant(b.finish([b.times(result, gate)]))[GATE]


def check_zeros(name: str, model: ModelProto, inputs: Inputs) -> int:
    """Return the number of elements that are zero as the graph says."""
    graph, run = lower(model, inputs), runner(model)
    arrays = {k: np.asarray(a) for k, a in inputs.items() if isinstance(a, np.ndarray | np.generic)}
    kinds = "biufc" if _takes_any_integer(model) else "bfc"
    plain = [k for k, a in arrays.items() if a.dtype.kind in kinds and a.size]
    if run is None:
        return 0
    confirmed = 0
    # Zero divided by zero is NaN.
    ops = {node.op_type for node in model.graph.node}
    divides, quantizes = bool(ops & {"Div", "Mod"}), "QuantizeLinear" in ops
    for chosen in [*({k} for k in plain), set(plain)] if not quantizes else [set(plain[:1])]:
        changed = {**inputs, **{k: np.zeros_like(arrays[k]) for k in chosen}}
        confirmed += _check(name, graph, run, changed, chosen, divides)
    return confirmed


def _takes_any_integer(model: ModelProto) -> bool:
    """Whether integers are data. Otherwise they may be sizes, strides and counts: onnxruntime crashes when it divides
    by zero."""
    ops = [node.op_type for node in model.graph.node]
    known = [OPERATORS["", op] for op in ops if ("", op) in OPERATORS]
    return all(entry.constants == "elementwise" for entry in known) and not {"Div", "Mod"}.intersection(ops)


def _check(name: str, graph: Graph, run: Run, inputs: Inputs, zeros: set[str], divides: bool) -> int:
    try:
        results: list[Any] = run(inputs)
    except Exception:  # the operator does not accept the input
        return 0
    confirmed = 0
    for number, result in enumerate(results):
        array: NDArray[Any] = np.asarray(result) if isinstance(result, np.ndarray | np.generic) else np.empty(0)
        shape = graph.nodes[graph.outputs[number]].shape if number < len(graph.outputs) else None
        if shape != array.shape or not array.size or array.dtype.kind not in "biufc":
            continue
        expected = find_zeros(graph, zeros, number)
        wrong = expected & (array.reshape(-1) != 0)
        if divides:
            wrong &= ~np.isnan(array.reshape(-1))
        assert not wrong.any(), (
            f"{name}: with {sorted(zeros)} at zero, output {number} is {array.reshape(-1)[wrong][:4]}"
        )
        confirmed += int(expected.sum())
    return confirmed
