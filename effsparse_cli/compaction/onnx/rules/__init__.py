"""How positions correspond: one rule for each way of moving data, by the name in an operator's field `positions`."""

from collections.abc import Callable

from effsparse_cli.compaction.onnx.op_positions import OpPositions
from effsparse_cli.compaction.onnx.rules import (
    contraction,
    convolution,
    elementwise,
    indexing,
    movement,
    reduction,
)
from effsparse_cli.compaction.positions import ValuePositions

RULES: dict[str, Callable[[OpPositions], ValuePositions | list[ValuePositions]]] = {
    "arg_reduction": reduction.reduce_to_index,
    "batch_norm": reduction.batch_norm,
    "cast_like": elementwise.cast_like,
    "concat": movement.concat,
    "conv": convolution.conv,
    "conv_transpose": convolution.conv_transpose,
    "dropout": elementwise.dropout,
    "einsum": contraction.einsum,
    "elementwise": elementwise.elementwise,
    "expand": movement.expand,
    "filled": movement.filled,
    "gather": indexing.gather,
    "gemm": contraction.gemm,
    "instance_norm": reduction.instance_norm,
    "layer_norm": reduction.layer_norm,
    "lp_norm": reduction.lp_norm,
    "matmul": contraction.matmul,
    "pad": reduction.pad,
    "pooling": reduction.pool,
    "product": elementwise.product,
    "quantized": elementwise.quantized,
    "quantizer": elementwise.quantizer,
    "reduction": reduction.reduce,
    "regroup": movement.reshape,
    "reshape": movement.reshape,
    "resize": reduction.resize,
    "running": reduction.cumulate,
    "shape": movement.shape_of,
    "slice": indexing.slice_,
    "softmax": reduction.softmax,
    "split": indexing.split,
    "tile": movement.tile,
    "transpose": movement.transpose,
    "where": elementwise.where,
}
