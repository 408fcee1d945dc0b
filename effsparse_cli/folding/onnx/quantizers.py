"""Expands QONNX quantizers into standard operators, so that onnxruntime can run them."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from effsparse_cli.formats.onnx.operators import QONNX, canonical
from effsparse_cli.formats.onnx.proto import attribute

INTEGER = ("Quant", "IntQuant")
ROUNDING: dict[str, tuple[str, float]] = {
    "DOWN": ("Floor", 0.0),
    "UP": ("Ceil", 0.0),
    "HALF_UP": ("Floor", 0.5),
    "HALF_DOWN": ("Ceil", -0.5),
}
"""Operator on the magnitude, and the number added to it before; the sign is restored afterwards."""
DIRECT = {"ROUND": "Round", "HALF_EVEN": "Round", "CEIL": "Ceil", "FLOOR": "Floor"}


def can_expand(node: NodeProto) -> bool:
    if canonical(node.domain) != QONNX or not all(node.input) or len(node.output) != 1:
        return False
    return node.op_type == "BipolarQuant" or (node.op_type in INTEGER and _mode(node) in {*DIRECT, *ROUNDING})


def expand(node: NodeProto) -> list[NodeProto]:
    writer = _Writer(node.output[0])
    result = _bipolar(writer, node) if node.op_type == "BipolarQuant" else _integer(writer, node)
    writer.nodes.append(helper.make_node("Identity", [result], [node.output[0]]))
    return writer.nodes


class _Writer:
    """Collects nodes, and names their results after the final one."""

    def __init__(self, name: str) -> None:
        self.nodes: list[NodeProto] = []
        self._name = name

    def op(self, kind: str, *inputs: str | float) -> str:
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        return self._add(helper.make_node(kind, names, [""]))

    def _constant(self, number: float) -> str:
        return self._add(
            helper.make_node("Constant", [], [""], value=numpy_helper.from_array(np.array(number, np.float32)))
        )

    def _add(self, node: NodeProto) -> str:
        node.output[0] = f"{self._name} step {len(self.nodes)}"
        self.nodes.append(node)
        return str(node.output[0])


def _bipolar(w: _Writer, node: NodeProto) -> str:
    x, scale = node.input
    return w.op("Where", w.op("Less", x, 0.0), w.op("Neg", scale), scale)


def _integer(w: _Writer, node: NodeProto) -> str:
    x, scale, zero, bits = node.input
    signed, narrow = bool(attribute(node, "signed", 1)), float(bool(attribute(node, "narrow", 0)))
    if signed:
        half = w.op("Pow", 2.0, w.op("Sub", bits, 1.0))
        low, high = w.op("Sub", narrow, half), w.op("Sub", half, 1.0)
    else:
        low, high = w.op("Mul", 0.0, bits), w.op("Sub", w.op("Pow", 2.0, bits), 1.0 + narrow)
    scaled = w.op("Add", w.op("Div", x, scale), zero)
    rounded = _rounded(w, w.op("Min", w.op("Max", scaled, low), high), _mode(node))
    if signed:
        sign = w.op("Where", w.op("Less", scaled, 0.0), -1.0, 1.0)
        rounded = w.op("Where", w.op("Equal", bits, 1.0), sign, rounded)
    return w.op("Mul", w.op("Sub", rounded, zero), scale)


def _rounded(w: _Writer, x: str, mode: str) -> str:
    if mode in DIRECT:
        return w.op(DIRECT[mode], x)
    kind, more = ROUNDING[mode]
    return w.op("Mul", w.op("Sign", x), w.op(kind, w.op("Add", w.op("Abs", x), more)))


def _mode(node: NodeProto) -> str:
    return str(attribute(node, "rounding_mode", "ROUND")).upper()
