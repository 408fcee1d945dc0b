"""Tables indexed by an input: an index may be any of the table's rows, so it is spread over them and
contracted with the table. The connections of a table are listed apart."""

from __future__ import annotations

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import Lookup, family
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered
from effsparse_cli.graph import indexing, windows

operator = family("lookup", uses_weights=True)


def look_up(low: Lowering, table: Arg, index: Arg) -> int:
    """[..., *rest] for an index [...] into a table [rows, *rest]."""
    node = low.node(index)
    if not isinstance(table, Const) or not table.parts or len(table.parts) > 1:
        return indexing.pick(low.b, low.node(table), 0, node)
    count, *rest = table.tensor.shape
    (weight,) = low.weights(table, lambda ghost: ghost.reshape(count, -1).t(), "embedding")
    rows = low.b.contract(indexing.spread_index(low.b, node, count), weight)
    return low.b.reshape(rows, (*low.b.shape(node), *rest))


@operator("embedding", lookup=Lookup(table=0, index=1), result_size=costs.embedded)
def embedding(low: Lowering, table: Arg, index: Arg, *_: Arg) -> int:
    """With a known index it is a reading of rows, like any data movement."""
    if isinstance(index, Const):
        node = low.b.take(low.node(table), 0, index.tensor.cpu().numpy())
        return low.b.reshape(node, low.call.shape)
    return look_up(low, table, index)


@operator("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    low: Lowering, table: Arg, index: Arg, offsets: Arg, scale: bool, mode: int, sparse: bool, weights: Arg,
    include_last: bool, *_: Arg,
) -> Lowered:  # fmt: skip
    """Rows looked up and reduced bag by bag; the other three results only serve training."""
    if not isinstance(offsets, Const):
        return NotImplemented
    rows = look_up(low, table, index)
    if weights is not None:
        node = low.node(weights)
        rows = low.b.times(rows, low.b.reshape(node, (*low.b.shape(node), 1)))
    starts = offsets.tensor.cpu().numpy()
    stops = starts[1:] if include_last else np.append(starts[1:], low.b.shape(rows)[0])
    starts = starts[: len(stops)]
    bags = low.b.window(rows, (windows.spans(starts, stops), None))
    extra = [Live(low.b.constant(True, r.shape), torch.int64) for r in low.call.results[1:]]
    return [bags, *extra]
