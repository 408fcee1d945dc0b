"""The stored tensors of one model as constant values, the layers that contractions use, and new values of the tensors
of a layer, given the connections to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto

from effsparse_cli.formats.onnx.lowering.values import ConstantValue
from effsparse_cli.formats.onnx.tensors.keys import Key
from effsparse_cli.formats.onnx.tensors.read import dense, sparse
from effsparse_cli.formats.onnx.tensors.stored import Array, Origin, Stored
from effsparse_cli.graph.graph import Layer, MixedWeight, Note
from effsparse_cli.graph.primitives import Bools, Ints, Shape
from effsparse_cli.graph.stored_numbers import describe_nonfinite

EMBEDDING = "embedding"
SMALLER_THAN_A_BYTE = ("int2", "int4", "float4_e2m1fn")


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
        recipe = stored if stored.dtype.kind not in "biuOSU" or stored.dtype.itemsize == 1 else None
        return replace(_constant(stored), recipe=recipe)

    def _of_call(self, key: Key, tensor: TensorProto | SparseTensorProto) -> Key:
        """Return the key of a constant in a function. It may differ between calls: each content is a tensor."""
        content, number, first = tensor.SerializeToString(), 1, key
        while self._contents.setdefault(key, content) != content:
            number += 1
            key = (*first[:-1], number, first[-1])
            if key not in self.names:
                self.names[key] = unique_name(f"{self.names[first]}#{number}", set(self.names.values()))
        return key

    def derive(self, constant: ConstantValue, name: str) -> ConstantValue:
        """Add a tensor that is computed from stored ones in a way that cannot be followed, under its own name."""
        array, name = constant.array, unique_name(name, {stored.name for stored in self.tensors})
        return _constant(self._add(name, constant.shape, array.dtype, lambda: array))

    def unpacked(
        self, name: str, shape: Shape, read: Callable[[], Array], repack: Callable[[Bools], Array]
    ) -> ConstantValue:
        """Add the elements of a tensor of packed bytes, under its name."""
        key: Key = ("unpacked", name)
        if key not in self._by_key:
            stored = self._add(name, shape, np.dtype(np.int32), read)
            stored.repack = repack
            self._by_key[key] = _constant(stored)
        return self._by_key[key]

    def layer(self, stored: Stored, op: str) -> Layer:
        """Add a use of the tensor, and return its layer: an embedding if it is looked up in all uses."""
        ops = self.ops.setdefault(stored.base, [])
        ops.append(op)
        others = [op for op in ops if op != EMBEDDING]
        return Layer(
            name=stored.name,
            op=(others or ops)[0],
            shape=stored.shape,
            kept=stored.keep,
            embedding=not others,
            values=stored.values,
            masked=stored.masked,
            finite=None if stored.altered else stored.finite,
            parameter=self.parameters.get(stored.name, stored.name),
            itemsize=0 if stored.repack or stored.dtype.name.endswith(SMALLER_THAN_A_BYTE) else stored.dtype.itemsize,
        )

    def settle(self, names: Iterable[str]) -> tuple[dict[str, Layer], list[Note]]:
        """Return the layers of these names, given all uses of their tensors, and notes about their weights."""
        by_name = {stored.name: stored for stored in self.tensors if stored.base in self.ops}
        used = [by_name[name] for name in names if name not in self.mixed_weights]
        layers = {stored.name: self.layer(stored, self.ops[stored.base][0]) for stored in used}
        masked = sum(stored.masked for stored in used)
        checks = [(stored.name, stored.finite) for stored in used if stored.finite is not None]
        notes: list[Note] = [f"masks are applied to {masked} of {len(used)} weight tensors"] if masked else []
        return layers, [*notes, partial(describe_nonfinite, checks)]

    def under(self, name: str) -> Stored | None:
        """Return the tensor of a layer; the unpacked one if there are two."""
        return next((stored for stored in reversed(self.tensors) if stored.name == name), None)

    def owners(self, addresses: Ints) -> Ints:
        """Return the index of the tensor for each address (plus one); -1 for literal zeros."""
        bases = np.asarray([stored.base for stored in self.tensors])
        return np.where(addresses > 0, np.searchsorted(bases, addresses - 1, side="right") - 1, -1)

    def _add(self, name: str, shape: Shape, dtype: np.dtype[Any], read: Callable[[], Array]) -> Stored:
        stored = Stored(name, shape, dtype, read, self._next)
        # Empty tensors take an address too, so that addresses are unique.
        self._next += max(stored.size, 1)
        self.tensors.append(stored)
        return stored


def _constant(stored: Stored) -> ConstantValue:
    return ConstantValue(stored.shape, stored.read, Origin(stored, stored.extent), unchanged=True, derived=True)


def unique_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


def masked_tensors(
    stored: Stored, kept: Bools, names: Mapping[str, str], values: Array | None = None
) -> dict[str, Array]:
    """Return arrays by tensor name; `names` has the tensor of each layer. `values` replace those of the weight."""
    new = {names[stored.name]: zeroed(stored, kept, values)}
    for constant in stored.altered:
        mask = stored_mask(constant)
        if mask is not None:
            weights, places = _places(constant, stored), _places(constant.mask, mask)
            array = new.get(names[mask.name], np.array(mask.read())).reshape(-1)
            array[places] = kept.reshape(-1)[weights]
            new[names[mask.name]] = array.reshape(mask.shape)
    return new


def zeroed(stored: Stored, kept: Bools, values: Array | None = None) -> Array:
    """Return the tensor with removed elements set to the number that stands for zero."""
    array = np.array(stored.read()) if values is None else values.astype(stored.dtype)
    np.copyto(array, stored.zeros(), casting="unsafe", where=~kept)
    return array


def stored_mask(constant: ConstantValue) -> Stored | None:
    """Return the stored tensor of a mask with one element for each weight."""
    mask = constant.mask
    if mask is None or mask.origin is None or constant.origin is None or not mask.unchanged:
        return None
    return mask.stored if mask.origin.where.size == constant.origin.where.size else None


def _places(constant: ConstantValue | None, stored: Stored) -> Ints:
    """Return the position of each element of a constant in the stored tensor."""
    assert constant is not None
    assert constant.origin is not None
    return constant.origin.addresses().reshape(-1) - 1 - stored.base
