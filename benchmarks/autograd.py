"""The paper's pass: one float32 autograd pass of the path norm, and the count of weights that have a gradient.

Weights become masks, biases zero, activations and norms the identity, max pooling average pooling; all before the clock
starts. Attention stays as it is: for such models only the cost of the pass counts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import nn

from effsparse_cli.formats.torch.tracing.trace import stored_tensors

IDENTITY = (nn.ReLU, nn.ReLU6, nn.GELU, nn.Dropout, nn.BatchNorm2d, nn.LayerNorm)


def linear_copy(model: nn.Module) -> nn.Module:
    """Return a copy of the model that computes its path norm."""
    model = copy.deepcopy(model).float()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, IDENTITY):
                setattr(module, name, nn.Identity())
            elif isinstance(child, nn.MaxPool2d):
                setattr(module, name, nn.AvgPool2d(child.kernel_size, child.stride, child.padding))
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.bias = None
    return model.eval()


def path_norm(model: nn.Module, weights: Mapping[str, torch.Tensor], example: torch.Tensor) -> Callable[[], int]:
    """Return one pass of `linear_copy(...)` with the masks of `weights`, which returns the number of active
    connections."""
    own = stored_tensors(model)
    masks = {name: weight != 0 for name, weight in weights.items()}
    for name, mask in masks.items():
        # Over the mean number kept in a row, so that float32 neither overflows nor vanishes.
        own[name].data = mask / max(float(mask.sum()) / len(mask), 1.0)
        own[name].requires_grad_(True)

    def run() -> int:
        for name in masks:
            own[name].grad = None
        result = model(example)
        getattr(result, "logits", result).sum().backward()
        return sum(
            int(((grad != 0) & mask).sum()) for name, mask in masks.items() if (grad := own[name].grad) is not None
        )

    return run
