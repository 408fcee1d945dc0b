"""The Scan operator: a body that is run once per position of its sequences."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import LiveValue
from effsparse_cli.formats.onnx.operators import NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.ops.control.bodies import as_before, captured, run_body
from effsparse_cli.graph.builder import Builder


@operator("Scan", primitives="Scan", constants="lowered")
def scan(c: OpCall) -> Result:
    if c.opset < 9:
        raise NotLoweredError("the batched form of opset 8")
    body: GraphProto = c.attr("body")
    scanned = c.attr("num_scan_inputs")
    n_states = len(c.inputs) - scanned
    outs = len(c.node.output) - n_states
    in_axes, out_axes = c.attr("scan_input_axes") or [0] * scanned, c.attr("scan_output_axes") or [0] * outs
    in_back = c.attr("scan_input_directions") or [0] * scanned
    out_back = c.attr("scan_output_directions") or [0] * outs
    sequences = [_step_first(c, c.x(n_states + i), in_axes[i], in_back[i]) for i in range(scanned)]
    states = [c.x(i) for i in range(n_states)]
    around = captured(c, body, {})

    def step(inner: Builder, values: Sequence[int]) -> list[int]:
        split = n_states + scanned
        given = {v.name: LiveValue(x) for v, x in zip(body.input, values[:split], strict=True)}
        results = run_body(c, body, inner, given, {}, around, values[split:])
        return [*as_before(inner, values[:n_states], results[:n_states]), *results[n_states:]]

    results = c.b.scan(step, states, sequences, [value.node for value in around.values()])
    for i in range(outs):
        stacked = results[n_states + i]
        if out_back[i]:
            stacked = c.b.slice(stacked, 0, None, None, -1)
        rank = len(c.b.shape(stacked))
        order = list(range(1, rank))
        order.insert(out_axes[i] % rank, 0)
        results[n_states + i] = c.b.permute(stacked, order)
    return results


def _step_first(c: OpCall, x: int, axis: int, backward: int) -> int:
    rank = len(c.b.shape(x))
    axis %= rank
    x = c.b.permute(x, [axis, *(i for i in range(rank) if i != axis)])
    return c.b.slice(x, 0, None, None, -1) if backward else x
