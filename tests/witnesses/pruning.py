"""Random values and random pruning for generated torch networks: masks of torch.nn.utils.prune, weights set to zero,
whole rows and columns."""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as torch_prune

DENSITIES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
MASKABLE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def randomize(model: nn.Module) -> None:
    """Draw all parameters: weights small enough to keep smooth activations away from their flat ends, biases and norm
    scales with some zeros, statistics as after training."""
    for name, p in model.named_parameters():
        with torch.no_grad():
            p.copy_(torch.randn_like(p) * 0.7 + 0.1)
            if p.dim() == 1:
                p.mul_(torch.rand_like(p) < (0.5 if "bias" in name else 0.85))
    for name, b in model.named_buffers():
        if "running_mean" in name:
            b.normal_()
        if "running_var" in name:
            b.uniform_(0.5, 2.0)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors whose elements are connections, by their torch names."""
    return {n: p for n, p in model.named_parameters() if p.dim() > 1 and "table" not in n}


def prune(model: nn.Module, dice: random.Random, densities: tuple[float, ...] = DENSITIES) -> None:
    """Prune at random. The last layer is pruned least, because without it everything before would be dead."""
    density, style = dice.choice(densities), dice.choice(["mask", "zero", "rows", "columns"])
    last = ["", *(path for path, module in model.named_modules() if isinstance(module, MASKABLE))][-1]
    for path, module in list(model.named_modules()):
        for name, p in list(module.named_parameters(recurse=False)):
            if p.dim() < 2 or "table" in name:
                continue
            kept = torch.rand_like(p) < density + (0.3 if path == last else dice.choice([0.0, 0.0, 0.2]))
            if style in ("rows", "columns") and path != last:
                dim = 0 if style == "rows" else 1
                alive = torch.rand(p.shape[dim]) < max(density, 0.6)
                kept |= torch.rand_like(p) < 0.5
                kept &= alive.reshape([-1 if i == dim else 1 for i in range(p.dim())])
            # Attention reads the weight of its output projection directly, where masks are not applied.
            if style == "mask" and type(module) in MASKABLE and "out_proj" not in path:
                torch_prune.custom_from_mask(module, name, kept)  # type: ignore[no-untyped-call]
            else:
                p.data.mul_(kept)
