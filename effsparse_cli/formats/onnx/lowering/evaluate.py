"""Evaluation of one node on arrays, by onnx's reference implementation or by the operator's own function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx.defs
from onnx import FunctionProto, NodeProto, OperatorSetIdProto

from effsparse_cli.formats.onnx.operators import find_operator
from effsparse_cli.formats.onnx.tensors.stored import Array


def evaluate(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array]:
    """Compute the outputs of a node. Any exception may be raised: the reference raises whatever numpy does."""
    operator = find_operator(node)
    if operator is not None and operator.evaluate is not None:
        return operator.evaluate(node, inputs)
    try:
        return _run(node, inputs, opset)
    except RuntimeError as error:
        # The reference lacks some old versions of operators. Newer versions only add to their meaning.
        if "No implementation" not in str(error):
            raise
        return _run(node, inputs, onnx.defs.onnx_opset_version())


def _run(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array]:
    # Imported late: most convolutional networks have nothing to evaluate.
    from onnx.reference import ReferenceEvaluator

    names = [f"in{i}" if a is not None else "" for i, a in enumerate(inputs)]
    outputs = [f"out{i}" for i in range(len(node.output))]
    renamed = NodeProto(op_type=node.op_type, domain=node.domain, input=names, output=outputs, attribute=node.attribute)
    opsets = [OperatorSetIdProto(domain=node.domain, version=opset)]
    function = FunctionProto(name="f", domain="f", output=outputs, node=[renamed], opset_import=opsets)
    function.input.extend(name for name in names if name)
    feeds = {name: a for name, a in zip(names, inputs, strict=True) if a is not None}
    with np.errstate(all="ignore"):
        return [np.asarray(a) for a in ReferenceEvaluator(function).run(outputs, feeds, {})]
