"""Weights of a few bits, packed in bytes. Unpacked, they are ordinary matrices relative to their zero points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue
from effsparse_cli.formats.onnx.lowering.weights import known_weight
from effsparse_cli.formats.onnx.operators import MICROSOFT, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.ops.contraction import add_bias, matmul_values
from effsparse_cli.formats.onnx.ops.indexing import lookup
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True, eq=False)
class Packed:
    """The packed bytes of a [rows, depth] matrix; `points` are the zero points of its rows, padded to whole blocks."""

    stored: ConstantValue
    rows: int
    depth: int
    bits: int
    points: Array

    def read(self) -> Array:
        return (self._fields() - self.points)[:, : self.depth]

    def repack(self, kept: Bools) -> Array:
        """Return the bytes with elements that are not kept set to the zero point."""
        fields = self._fields()
        gone = np.zeros(fields.shape, bool)
        gone[:, : self.depth] = ~kept.reshape(self.rows, self.depth)
        fields[gone] = np.broadcast_to(self.points, fields.shape)[gone]
        return pack_bits(fields.astype(np.uint8), self.bits).reshape(self.stored.shape)

    def _fields(self) -> Array:
        return unpack_bits(self.stored.array.reshape(self.rows, -1), self.bits).astype(np.int64)

    def weight(self, c: OpCall) -> ConstantValue:
        tensor = self.stored.stored
        if tensor is None or not self.stored.unchanged:
            raise NotLoweredError("its packed weight is computed")
        return c.scope.state.store.unpacked(tensor.name, (self.rows, self.depth), self.read, self.repack)


@operator("MatMulNBits", domain=MICROSOFT, primitives="Contract")
def matmul_n_bits(c: OpCall) -> Result:
    """Rows consist of blocks. Without zero points, the middle of the range is zero."""
    rows, depth, bits, block = c.attr("N"), c.attr("K"), c.attr("bits", 4) or 4, c.attr("block_size")
    blocks = -(-depth // block)
    if not c.has(3):
        points: Array = np.asarray(1 << (bits - 1))
    elif c.array(3).dtype == np.uint8:
        points = unpack_bits(c.array(3).reshape(rows, -1), bits)[:, :blocks].astype(np.int64).repeat(block, 1)
    else:
        raise NotLoweredError("zero points that are not integers")
    packed = Packed(known_weight(c.value(1)), rows, depth, bits, points)
    y = matmul_values(c, c.value(0), packed.weight(c).moved(lambda a: a.T))
    return add_bias(c, y, c.get(5))


@operator("GatherBlockQuantized", domain=MICROSOFT, primitives="Contract in a stored table, Take otherwise")
def gather_block_quantized(c: OpCall) -> Result:
    """A table of 4-bit numbers, or of bytes that hold two of them, with zero points per block along the last axis."""
    table = known_weight(c.value(0))
    axis = c.attr("gather_axis", 0) % len(table.shape)
    bits = c.attr("bits", 4) or 4
    if c.has(3):
        raise NotLoweredError("explicit zero points")
    if table.array.dtype == np.uint8 and bits < 8:
        if len(table.shape) != 2:
            raise NotLoweredError("a packed table of more than two axes")
        rows, width = table.shape
        table = Packed(table, rows, width * 8 // bits, bits, np.asarray(1 << (bits - 1))).weight(c)
    if c.is_live(1):
        return lookup(c, table, axis, c.x(1))
    ids = c.array(1)
    wanted = (*table.shape[:axis], *ids.shape, *table.shape[axis + 1 :])
    return c.b.reshape(c.b.take(c.node_of(table), axis, ids.reshape(-1)), wanted)


def unpack_bits(packed: Array, bits: int) -> Array:
    """Unpack little-endian fields of `bits` bits along the last axis."""
    single = np.unpackbits(np.ascontiguousarray(packed).view(np.uint8), axis=-1, bitorder="little")
    fields = single.reshape(*packed.shape[:-1], -1, bits)
    return np.asarray((fields << np.arange(bits, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8))


def pack_bits(fields: Array, bits: int) -> Array:
    single = (fields[..., None] >> np.arange(bits, dtype=np.uint8)) & 1
    return np.packbits(single.reshape(*fields.shape[:-1], -1), axis=-1, bitorder="little")
