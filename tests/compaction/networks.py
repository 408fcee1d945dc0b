"""Small networks of common kinds, each with structure that makes compaction hard, and ways to prune them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Residual sums join channels; the second block has a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (8, 8, 8, 12, 12))
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.c, self.d = nn.Conv2d(8, 12, 3, 2, 1, bias=False), nn.Conv2d(12, 12, 3, padding=1, bias=False)
        self.project, self.head = nn.Conv2d(8, 12, 1, 2), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norms[0](self.stem(x)))
        x = F.relu(x + self.norms[2](self.b(F.relu(self.norms[1](self.a(x))))))
        x = F.relu(self.project(x) + self.norms[4](self.d(F.relu(self.norms[3](self.c(x))))))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class Inverted(nn.Module):
    """Depthwise convolution, squeeze and excitation, and a shortcut around both."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.expand = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 18, 1)
        self.depthwise = nn.Conv2d(18, 18, 3, padding=1, groups=18)
        self.squeeze, self.excite = nn.Conv2d(18, 7, 1), nn.Conv2d(7, 18, 1)
        self.project, self.head = nn.Conv2d(18, 6, 1), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self.stem(x))
        y = F.relu6(self.depthwise(F.relu6(self.expand(x))))
        y = y * torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return self.head((x + self.project(y)).mean((2, 3)))  # type: ignore[no-any-return]


class Dense(nn.Module):
    """Concatenation, a split, and channels that become blocks of features."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(9, 6, 3, padding=1), nn.Conv2d(9, 4, 1)
        self.norm, self.head = nn.BatchNorm2d(9), nn.Linear(4 * 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, F.relu(self.a(x))], 1)
        x = torch.cat([x, F.relu(self.b(self.norm(x)))], 1)
        left, right = torch.split(x, [9, 6], 1)
        x = self.c(left + F.pad(right, (0, 0, 0, 0, 0, 3)))
        return self.head(F.max_pool2d(x, 2).flatten(1))  # type: ignore[no-any-return]


class Grouped(nn.Module):
    """Grouped and transposed convolutions, group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 8, 3, padding=1, groups=4)
        self.norm, self.up, self.out = nn.GroupNorm(4, 8), nn.ConvTranspose2d(8, 6, 2, 2), nn.Conv2d(6, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.up(F.relu(self.norm(self.b(F.relu(self.a(x))))))))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Heads from a reshape, layer norm over the width, and a gated feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Linear(6, 16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down, self.head = nn.Linear(16, 40), nn.Linear(20, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        gate, value = self.up(x).chunk(2, -1)
        return self.head((x + self.down(F.silu(gate) * value)).mean(1))  # type: ignore[no-any-return]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 16), nn.GELU(), nn.Linear(16, 5))


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 8), (8, 12), (12, 12)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(12, 10), nn.ReLU(), nn.Dropout(), nn.Linear(10, 5))


NETWORKS = {
    "mlp": (mlp, (1, 12)),
    "vgg": (vgg, (1, 3, 8, 8)),
    "residual": (Residual, (1, 3, 8, 8)),
    "inverted": (Inverted, (1, 3, 8, 8)),
    "dense": (Dense, (1, 3, 8, 8)),
    "grouped": (Grouped, (1, 3, 4, 4)),
    "attention": (Attention, (2, 7, 6)),
}


def build(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """Return a network as after training: no bias or statistic is zero."""
    make, shape = NETWORKS[name]
    torch.manual_seed(seed)
    return trained(make()), torch.randn(shape)


def trained(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.ndim == 1 and tensor.is_floating_point():
                tensor.uniform_(0.5, 2) if "var" in name or "weight" in name else tensor.normal_(std=0.3)
    return model.eval()


def prune_at_random(model: nn.Module, sparsity: float, seed: int = 0) -> nn.Module:
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(torch.rand(parameter.shape, generator=dice) >= sparsity)
    return model


def drop_neurons(model: nn.Module, share: float = 0.5, seed: int = 0) -> nn.Module:
    """Remove the inputs of some neurons of every layer, so that they are constant."""
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter[torch.rand(len(parameter), generator=dice) < share] = 0
    return model
