"""Witness 2: the paper's own pass, which turns a torch network into its path norm. Weights become their masks, biases
zero, norms one scale per channel, activations the identity and maxima sums."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune as torch_prune

from tests.witnesses.modules import BATCH_NORM, CONV, MAX_POOL, PAD, ROUGH, TRANSPOSED
from tests.witnesses.torch_blocks import Positions

CONTRACTIONS: tuple[type[nn.Module], ...] = (nn.Linear, *CONV.values(), *TRANSPOSED.values())
CONVOLVE: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
ADAPTIVE: dict[type[nn.Module], Callable[..., nn.Module]] = {
    nn.AdaptiveMaxPool1d: nn.AdaptiveAvgPool1d,
    nn.AdaptiveMaxPool2d: nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool3d: nn.AdaptiveAvgPool3d,
}


class Scale(nn.Module):
    """A norm in evaluation mode: a zero scale cuts its channel, any other passes it."""

    def __init__(self, norm: nn.Module, dims: int) -> None:
        super().__init__()
        self.scale = norm.get_parameter("weight").ne(0).double().reshape(-1, *[1] * dims)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class WindowSum(nn.Module):
    """The sum over the windows of a max pooling, with its dilation, ceil mode and output size."""

    def __init__(self, pool: nn.Module, dims: int) -> None:
        super().__init__()
        self.pool, self.dims = pool, dims

    def forward(self, x: Tensor) -> Tensor:
        names = ("kernel_size", "stride", "padding", "dilation")
        kernel, stride, before, dilation = (int(getattr(self.pool, name)) for name in names)
        sizes = self.pool(x).shape[2:]
        reach = [(out - 1) * stride + dilation * (kernel - 1) + 1 for out in sizes]
        sides = [(before, max(r - n - before, 0)) for r, n in zip(reach, x.shape[2:], strict=True)]
        padded = F.pad(x, [side for pair in reversed(sides) for side in pair])
        ones = torch.ones(x.shape[1], 1, *[kernel] * self.dims, dtype=x.dtype)
        summed = CONVOLVE[self.dims](padded, ones, stride=stride, dilation=dilation, groups=x.shape[1])
        for axis, n in enumerate(sizes):
            summed = summed.narrow(axis + 2, 0, n)
        return summed


def replaced(module: nn.Module) -> nn.Module | None:
    """Return the module's replacement in the path norm, or None to keep it."""
    if isinstance(module, tuple(kind for kind in ROUGH if isinstance(kind, type))):
        return nn.Identity()
    if type(module) in ADAPTIVE:
        return ADAPTIVE[type(module)](module.output_size)
    for dims in (1, 2, 3):
        if isinstance(module, BATCH_NORM[dims]):
            return Scale(module, dims)
        if isinstance(module, MAX_POOL[dims]):
            return WindowSum(module, dims)
        if isinstance(module, PAD[dims]):
            return PAD[dims](module.padding, 0.0)
    return None


def path_norm(model: nn.Module) -> nn.Module:
    """Turn the network into its path norm, in place."""
    for module in list(model.modules()):
        if torch_prune.is_pruned(module) and hasattr(module, "weight_orig"):
            torch_prune.remove(module, "weight")  # type: ignore[no-untyped-call]
        if isinstance(module, CONTRACTIONS):
            for name, p in module.named_parameters():
                p.data = p.data.ne(0).double() if name == "weight" else torch.zeros_like(p)
        if isinstance(module, Positions):
            module.table.data.zero_()
        for name, child in module.named_children():
            setattr(module, name, replaced(child) or child)
    return model


def touched(model: nn.Module, shape: torch.Size) -> dict[str, Tensor]:
    """Return for every weight where the path norm's gradient is not zero and the weight is kept."""
    model(torch.ones(shape, dtype=torch.float64)).sum().backward()
    found = {}
    for name, p in model.named_parameters():
        if p.dim() > 1 and "table" not in name:
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            found[name] = (grad != 0) & (p != 0)
    return found
