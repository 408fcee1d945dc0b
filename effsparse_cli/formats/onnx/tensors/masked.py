"""What the stored tensors of an ONNX layer become when other connections are kept: the weight itself, and the masks
that the file multiplies it with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from effsparse_cli.formats.onnx.lowering.values import ConstantValue
from effsparse_cli.formats.onnx.tensors.stored import Array, Stored
from effsparse_cli.graph.primitives import Bools, Ints


def masked_tensors(
    stored: Stored, kept: Bools, names: Mapping[str, str], values: Array | None = None
) -> dict[str, Array]:
    """By the tensor's name, where `names` has that for every layer's. `values` stand for the weight's own."""
    new = {names[stored.name]: zeroed(stored, kept, values)}
    for known in stored.altered:
        mask = stored_mask(known)
        if mask is not None:
            weights, places = _places(known, stored), _places(known.mask, mask)
            array = new.get(names[mask.name], np.array(mask.read())).reshape(-1)
            array[places] = kept.reshape(-1)[weights]
            new[names[mask.name]] = array.reshape(mask.shape)
    return new


def zeroed(stored: Stored, kept: Bools, values: Array | None = None) -> Array:
    """What is not kept at the number that stands for zero."""
    array = np.array(stored.read()) if values is None else values.astype(stored.dtype)
    array[~kept] = stored.zeros()[~kept].astype(array.dtype)
    return array


def stored_mask(known: ConstantValue) -> Stored | None:
    """The tensor of a mask that has one element for each of the weight's."""
    mask = known.mask
    if mask is None or mask.origin is None or mask.origin.stored is None or known.origin is None:
        return None
    same = mask.origin.addresses().size == known.origin.addresses().size
    return mask.origin.stored if same and mask.unchanged else None


def _places(known: ConstantValue | None, stored: Stored) -> Ints:
    """For each element of a constant its position in the stored tensor."""
    assert known is not None
    assert known.origin is not None
    return known.origin.addresses().reshape(-1) - 1 - stored.base
