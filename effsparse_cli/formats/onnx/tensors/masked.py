"""New values of the stored tensors of a layer, given the connections to keep: the weight itself, and its masks in the
file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from effsparse_cli.formats.onnx.lowering.values import ConstantValue
from effsparse_cli.formats.onnx.tensors.stored import Array, Stored
from effsparse_cli.graph.primitives import Bools, Ints


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
    if mask is None or mask.origin is None or mask.origin.stored is None or constant.origin is None:
        return None
    same = mask.origin.addresses().size == constant.origin.addresses().size
    return mask.origin.stored if same and mask.unchanged else None


def _places(constant: ConstantValue | None, stored: Stored) -> Ints:
    """Return the position of each element of a constant in the stored tensor."""
    assert constant is not None
    assert constant.origin is not None
    return constant.origin.addresses().reshape(-1) - 1 - stored.base
