"""The stored tensors of one model as constant values, and the layers that contractions use."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto

from effsparse_cli.formats.onnx.lowering.values import ConstantValue, Leaf
from effsparse_cli.formats.onnx.tensors.keys import Key
from effsparse_cli.formats.onnx.tensors.read import dense, sparse
from effsparse_cli.formats.onnx.tensors.stored import Array, Origin, Stored
from effsparse_cli.graph.graph import Layer, MixedWeight, Note
from effsparse_cli.graph.primitives import Bools, Ints, Shape
from effsparse_cli.graph.stored_numbers import describe_nonfinite

EMBEDDING = "embedding"


class Store:
    def __init__(self, path: Path, names: dict[Key, str]) -> None:
        self.path = path
        self.names = names
        self.parameters = {name: str(key[0]) for key, name in names.items() if len(key) == 1}
        self.tensors: list[Stored] = []
        self.ops: dict[int, list[str]] = {}
        self.mixed_weights: dict[str, MixedWeight] = {}
        self.mixed: dict[ConstantValue, str] = {}
        self._by_key: dict[Key, ConstantValue] = {}
        self._contents: dict[Key, bytes] = {}
        self._next = 0

    def tensor(self, key: Key, tensor: TensorProto | SparseTensorProto) -> ConstantValue:
        if key[:1] == ("function",):
            key = self._of_call(key, tensor)
        if key not in self._by_key:
            read = sparse(tensor, self.path) if isinstance(tensor, SparseTensorProto) else dense(tensor, self.path)
            self._by_key[key] = self.whole(self._add(self.names[key], *read))
        return self._by_key[key]

    def whole(self, stored: Stored) -> ConstantValue:
        """Return the tensor as it is stored."""
        recipe = Leaf(stored) if stored.dtype.kind not in "biuOSU" or stored.dtype.itemsize == 1 else None
        origin = Origin(stored, stored.extent)
        return ConstantValue(stored.shape, stored.read, origin, unchanged=True, derived=True, recipe=recipe)

    def _of_call(self, key: Key, tensor: TensorProto | SparseTensorProto) -> Key:
        """Return the key of a constant in a function. It may be an attribute of the call, so each content is a tensor
        of its own."""
        content, number, first = tensor.SerializeToString(), 1, key
        while self._contents.setdefault(key, content) != content:
            number += 1
            key = (*first[:-1], number, first[-1])
            if key not in self.names:
                name, taken = f"{self.names[first]}#{number}", set(self.names.values())
                while name in taken:
                    name += "'"
                self.names[key] = name
        return key

    def derive(self, constant: ConstantValue, name: str) -> ConstantValue:
        """Add a tensor that is computed from stored ones in a way that cannot be followed, under its own name."""
        taken = {stored.name for stored in self.tensors}
        while name in taken:
            name += "'"
        array = constant.array
        stored = self._add(name, constant.shape, array.dtype, lambda: array)
        return ConstantValue(stored.shape, stored.read, Origin(stored, stored.extent), unchanged=True, derived=True)

    def unpacked(
        self, name: str, shape: Shape, read: Callable[[], Array], repack: Callable[[Bools], Array]
    ) -> ConstantValue:
        """Add the elements of a tensor of packed bytes, under its name."""
        key: Key = ("unpacked", name)
        if key not in self._by_key:
            stored = self._add(name, shape, np.dtype(np.int32), read)
            stored.repack = repack
            self._by_key[key] = ConstantValue(shape, read, Origin(stored, stored.extent), unchanged=True, derived=True)
        return self._by_key[key]

    def layer(self, stored: Stored, op: str) -> Layer:
        """Add a use of the tensor, and return its layer. A tensor that is both looked up and multiplied by is not an
        embedding."""
        ops = self.ops.setdefault(stored.base, [])
        ops.append(op)
        others = [op for op in ops if op != EMBEDDING]
        chosen = (others or ops)[0]
        finite = None if stored.altered else stored.finite
        return Layer(
            stored.name,
            chosen,
            stored.shape,
            stored.keep,
            not others,
            stored.values,
            stored.masked,
            finite,
            self.parameters.get(stored.name, stored.name),
        )

    def settled(self, names: Iterable[str]) -> dict[str, Layer]:
        """Return the layers, given all uses of their tensors."""
        by_name = {stored.name: stored for stored in self.tensors if stored.base in self.ops}
        own = [name for name in names if name not in self.mixed_weights]
        return {name: self.layer(by_name[name], self.ops[by_name[name].base][0]) for name in own}

    def notes(self, names: Iterable[str]) -> list[Note]:
        """Return notes about the weights of these layers."""
        by_name = {stored.name: stored for stored in self.tensors if stored.base in self.ops}
        used = [by_name[name] for name in names]
        notes: list[Note] = []
        masked = [stored for stored in used if stored.masked]
        if masked:
            notes.append(f"masks folded: {len(masked)} of {len(used)} weight tensors have one")
        checks = [(stored.name, stored.finite) for stored in used if stored.finite is not None]
        return [*notes, partial(describe_nonfinite, checks)]

    def under(self, name: str) -> Stored | None:
        """Return the tensor of a layer; the unpacked one if there are two."""
        return next((stored for stored in reversed(self.tensors) if stored.name == name), None)

    def owners(self, addresses: Ints) -> Ints:
        """Return the index of the tensor for each address (plus one); -1 for literal zeros."""
        bases = np.asarray([stored.base for stored in self.tensors])
        return np.where(addresses > 0, np.searchsorted(bases, addresses - 1, side="right") - 1, -1)

    def at(self, address: int) -> Stored:
        return self.tensors[bisect_right([stored.base for stored in self.tensors], address) - 1]

    def _add(self, name: str, shape: Shape, dtype: np.dtype[Any], read: Callable[[], Array]) -> Stored:
        stored = Stored(name, shape, dtype, read, self._next)
        # Empty tensors take an address too, so that addresses are unique.
        self._next += max(stored.size, 1)
        self.tensors.append(stored)
        return stored
