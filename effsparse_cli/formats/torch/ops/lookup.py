"""Lookups in stored tables. An index that depends on the input may pick any row, so it is expanded over the rows and
contracted with the table. The connections of tables are listed separately."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.operands import Lookup
from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, ConstantValue, Result
from effsparse_cli.graph import indexing, windows

operator = family("lookup", uses_weights=True)


def look_up(call: OpCall, table: Arg, index: Arg) -> int:
    """Return [..., *rest] for an index [...] into a table [rows, *rest]."""
    node = call.node(index)
    if not isinstance(table, ConstantValue) or not table.parts or len(table.parts) > 1:
        return indexing.pick(call.b, call.node(table), 0, node)
    count, *rest = table.tensor.shape
    (weight,) = call.weights(table, lambda elements: elements.reshape(count, -1).t(), "embedding")
    rows = call.b.contract(indexing.spread_index(call.b, node, count), weight)
    return call.b.reshape(rows, (*call.b.shape(node), *rest))


@operator("embedding", lookup=Lookup(), result_size=costs.embedded)
def embedding(call: OpCall, table: Arg, index: Arg, *_: Arg) -> int:
    """With a constant index it is data movement."""
    if isinstance(index, ConstantValue):
        node = call.b.take(call.node(table), 0, index.tensor.cpu().numpy())
        return call.b.reshape(node, call.shape)
    return look_up(call, table, index)


@operator("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    call: OpCall, table: Arg, index: Arg, offsets: Arg, scale: bool, mode: int, sparse: bool, weights: Arg,
    include_last: bool, *_: Arg,
) -> Result:  # fmt: skip
    """Rows are looked up and reduced bag by bag; the other three results are only for training."""
    if not isinstance(offsets, ConstantValue):
        return NotImplemented
    rows = look_up(call, table, index)
    if weights is not None:
        node = call.node(weights)
        rows = call.b.times(rows, call.b.reshape(node, (*call.b.shape(node), 1)))
    starts = offsets.tensor.cpu().numpy()
    stops = starts[1:] if include_last else np.append(starts[1:], call.b.shape(rows)[0])
    starts = starts[: len(stops)]
    return call.with_unused(call.b.window(rows, (windows.spans(starts, stops), None)))
