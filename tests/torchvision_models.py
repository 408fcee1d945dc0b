"""Import torchvision's models without its compiled operators. No model here calls them, but the import needs them, so
missing ones are defined without an implementation first. For tests only."""

from __future__ import annotations

import importlib
from types import ModuleType

import torch

_missing = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]


def models() -> ModuleType:
    """Return the module `torchvision.models`."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError as error:
        if "nms does not exist" not in str(error):
            raise
    for name in ("nms", "qnms"):
        schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        _missing.define(schema)  # type: ignore[no-untyped-call]
    return importlib.import_module("torchvision.models")
