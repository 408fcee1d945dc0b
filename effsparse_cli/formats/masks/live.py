"""The masks that a module multiplies its own weights with, by the names that pruning libraries give them."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def find_mask(name: str, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """The mask beside a stored weight, if there is one of its shape."""
    wrapped = name.removesuffix(".original")
    names = (f"{name.removesuffix('_orig')}_mask", f"{wrapped}.0.mask" if wrapped != name else "")
    return next((mask for mask in names if mask in tensors and tensors[mask].shape == tensors[name].shape), None)
