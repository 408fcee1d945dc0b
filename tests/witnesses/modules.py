"""Small torch networks generated from a seed: image-like chains in one to three dimensions and sequence models, in
float64, with random biases, statistics and pruning. The same seed gives the same network, so a witness can make its
own copy."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.witnesses import torch_blocks as blocks
from tests.witnesses.pruning import prune, randomize
from tests.witnesses.torch_functions import FLAT, MIXES, MOVES, Apply

SMOOTH: tuple[Callable[[], nn.Module], ...] = (nn.Tanh, nn.SiLU, nn.GELU, nn.Softplus, nn.Sigmoid, nn.Identity)
ROUGH: tuple[Callable[[], nn.Module], ...] = (*SMOOTH, nn.ReLU, nn.LeakyReLU, nn.Hardswish, nn.ReLU6)
Table = dict[int, type[nn.Module]]
CONV: Table = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED: Table = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
BATCH_NORM: Table = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
MAX_POOL: Table = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
AVG_POOL: Table = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
ADAPTIVE: Table = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}
ADAPTIVE_MAX: Table = {1: nn.AdaptiveMaxPool1d, 2: nn.AdaptiveMaxPool2d, 3: nn.AdaptiveMaxPool3d}
PAD: Table = {1: nn.ConstantPad1d, 2: nn.ConstantPad2d, 3: nn.ConstantPad3d}


@dataclass(frozen=True)
class Case:
    """A network and its inputs. `smooth` if no activation or pooling has a flat part, so that every active weight must
    change the output."""

    seed: int
    model: nn.Module
    draw_input: Callable[[], Tensor]
    smooth: bool


@dataclass
class Making:
    """The choices of one network. `plain` excludes gates and everything that mixes along an axis."""

    dice: random.Random
    plain: bool
    smooth: bool

    def act(self) -> nn.Module:
        return self.dice.choice(SMOOTH if self.smooth else ROUGH)()

    def flip(self) -> bool:
        return self.dice.random() < 0.5

    def up_to(self, most: int) -> int:
        return self.dice.randint(1, most)


def shape_after(model: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    with torch.no_grad():
        return tuple(model.double().eval()(torch.zeros(shape, dtype=torch.float64)).shape)


def convolution(m: Making, shape: tuple[int, ...]) -> nn.Module:
    d, channels, smallest = len(shape) - 2, shape[1], min(shape[2:])
    kernel = m.up_to(3)
    dilation = m.up_to(2) if kernel > 1 else 1
    padding = m.dice.randint(0, 2)
    while smallest + 2 * padding < dilation * (kernel - 1) + 1:
        padding += 1
    groups = m.dice.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    wide = groups * m.up_to(max(4 // groups, 1))
    mode = m.dice.choice(["zeros", "zeros", "circular"]) if 0 < padding <= smallest else "zeros"
    conv = CONV[d](channels, wide, kernel, m.up_to(2), padding, dilation, groups, m.flip(), mode)
    parts: list[nn.Module] = [conv]
    if m.flip():
        parts.append(BATCH_NORM[d](wide))
    if m.flip():
        sides = [m.dice.randint(0, 2) for _ in range(2 * d)]
        parts.insert(0, PAD[d](tuple(sides), 0.5 if m.dice.random() < 0.2 else 0.0))
    return nn.Sequential(*parts, m.act())


def transposed(m: Making, shape: tuple[int, ...]) -> nn.Module:
    d, channels, stride = len(shape) - 2, shape[1], m.up_to(2)
    groups = m.dice.choice([g for g in (1, 2) if channels % g == 0])
    kernel, dilation, extra = m.up_to(3), m.up_to(2), m.dice.randint(0, stride - 1)
    reach = (min(shape[2:]) - 1) * stride + dilation * (kernel - 1) + extra
    padding = m.dice.randint(0, min(1, reach // 2))
    wide = groups * m.up_to(2)
    made = TRANSPOSED[d](channels, wide, kernel, stride, padding, min(extra, max(stride, dilation) - 1), groups,
                         m.flip(), dilation)  # fmt: skip
    return nn.Sequential(made, m.act())


def residual(m: Making, shape: tuple[int, ...]) -> nn.Module:
    d, channels, middle = len(shape) - 2, shape[1], m.up_to(4)
    body = nn.Sequential(
        CONV[d](channels, middle, 3, padding=1, bias=m.flip()),
        m.act(),
        CONV[d](middle, channels, m.dice.choice([1, 3]), padding="same", bias=m.flip()),
        BATCH_NORM[d](channels),
    )
    projected = CONV[d](channels, channels, 1, bias=False)
    return blocks.Residual(body, nn.Identity() if m.flip() else projected)


def branches(m: Making, shape: tuple[int, ...]) -> nn.Module:
    d, channels = len(shape) - 2, shape[1]
    kernels = m.dice.sample([1, 3, 5], 2)
    made = [CONV[d](channels, m.up_to(2), k, padding=k // 2, bias=m.flip()) for k in kernels]
    return blocks.Branches(*made, *([nn.Identity()] if m.flip() else []))


def pooling(m: Making, shape: tuple[int, ...]) -> nn.Module:
    d, smallest = len(shape) - 2, min(shape[2:])
    match m.dice.randint(0, 3):
        case 0:
            goal = m.up_to(3)
            return ADAPTIVE[d](goal) if m.smooth or m.flip() else ADAPTIVE_MAX[d](goal)
        case 1 if d == 2:
            return nn.Upsample(scale_factor=2, mode=m.dice.choice(["nearest", "bilinear"]))
        case 2 if d == 2 and shape[1] % 4 == 0:
            return nn.PixelShuffle(2)
    kernel = m.dice.randint(1, min(3, smallest))
    padding, stride, ceil = m.dice.randint(0, kernel // 2), m.up_to(2), m.flip()
    if m.smooth or m.flip():
        return AVG_POOL[d](kernel, stride, padding, ceil, count_include_pad=m.flip())
    dilation = 2 if 2 * (kernel - 1) + 1 <= smallest and m.flip() else 1
    return MAX_POOL[d](kernel, stride, padding, dilation, ceil_mode=ceil)


def function(m: Making, _shape: tuple[int, ...]) -> nn.Module:
    """Return an operator between layers."""
    names = [*MOVES] if m.plain else [*MOVES, *MIXES] if m.smooth else [*MOVES, *MIXES, *FLAT]
    return Apply(m.dice.choice(names))


def image_gate(m: Making, shape: tuple[int, ...]) -> nn.Module:
    gate = m.dice.choice([nn.Sigmoid(), nn.Tanh(), nn.Hardsigmoid()] if not m.smooth else [nn.Sigmoid(), nn.Tanh()])
    return blocks.SqueezeExcite(shape[1], m.up_to(3), gate, m.flip())


def image_norm(m: Making, shape: tuple[int, ...]) -> nn.Module:
    channels, pixels = shape[1], int(torch.Size(shape[2:]).numel())
    groups = m.dice.choice([g for g in range(1, channels + 1) if channels % g == 0 and channels // g * pixels > 2])
    return nn.GroupNorm(groups, channels)


def sequence_block(m: Making, shape: tuple[int, ...]) -> nn.Module:
    """Return a block that maps [batch, steps, width] to the same rank."""
    width, steps = shape[2], shape[1]
    heads = m.dice.choice([h for h in (1, 2) if width % h == 0])
    linear = nn.Sequential(nn.Linear(width, m.up_to(3) + 1, bias=m.flip()), m.act())
    mixing: list[Callable[[], nn.Module]] = [
        lambda: nn.LayerNorm(width),
        lambda: blocks.Residual(blocks.SelfAttention(width, heads, m.flip(), m.flip()), nn.Identity()),
        lambda: blocks.SelfAttention(width, heads, m.flip(), m.flip()),
        lambda: blocks.TorchAttention(width, heads, m.flip()),
        lambda: blocks.GatedUnit(width, m.up_to(3) + 1, m.dice.choice([nn.SiLU(), nn.Sigmoid(), nn.GELU()]), m.flip()),
        lambda: recurrent(m, width),
        lambda: nn.RMSNorm(width, eps=1e-3),
        lambda: function(m, shape),
        lambda: function(m, shape),
        lambda: nn.TransformerEncoderLayer(width, heads, 3, activation=F.gelu, batch_first=True, norm_first=m.flip()),
    ]
    free: list[Callable[[], nn.Module]] = [
        lambda: linear,
        lambda: blocks.Positions(steps, width),
        lambda: function(m, shape),
        lambda: blocks.OverTime(nn.Conv1d(width, m.up_to(3) + 1, 3, padding=m.up_to(2), bias=m.flip())),
    ]
    return m.dice.choice(free if m.plain else mixing + free)()


def recurrent(m: Making, width: int) -> nn.Module:
    kind = m.dice.choice([nn.LSTM, nn.GRU, nn.RNN])
    hidden = m.dice.randint(2, 3)
    options = {"num_layers": m.up_to(2), "bias": m.flip(), "batch_first": True, "bidirectional": m.flip()}
    if kind is nn.LSTM and m.dice.random() < 0.3:
        options["proj_size"] = hidden - 1
    return blocks.Recurrent(kind(width, hidden, **options), m.dice.random() < 0.2)


def image_model(m: Making) -> tuple[list[nn.Module], tuple[int, ...]]:
    d = m.dice.choice([1, 2, 2, 2, 3])
    start = (1, m.up_to(3), *(m.dice.randint(3, 6 - d // 2) for _ in range(d)))
    made: list[nn.Module] = []
    shape = start
    plain = [convolution] * 3 + [transposed, residual, branches, function] + [pooling] * 3
    mixing = [image_gate, image_norm, function, function]
    for i in range(m.dice.randint(2, 4)):
        block = convolution if i == 0 else m.dice.choice(plain if m.plain else plain + mixing)
        if i and (len(shape) != len(start) or not 3 <= torch.Size(shape).numel() <= 200):
            break
        made.append(block(m, shape))
        shape = shape_after(made[-1], shape)
    if m.flip():
        made.append(blocks.Mean(*range(2, len(shape))) if m.flip() else nn.Flatten())
        wide = shape_after(made[-1], shape)[1]
        made += [nn.Linear(wide, 4, bias=m.flip()), m.act(), nn.Linear(4, m.up_to(3))]
    return made, start


def sequence_model(m: Making) -> tuple[list[nn.Module], tuple[int, ...]]:
    start = (1, m.dice.randint(3, 4), m.dice.randint(2, 4))
    made: list[nn.Module] = []
    shape: tuple[int, ...] = start
    for _ in range(m.dice.randint(2, 4)):
        if min(shape[1:]) < 2:
            break
        made.append(sequence_block(m, shape))
        shape = shape_after(made[-1], shape)
    made.append(m.dice.choice([blocks.Mean(1), nn.Flatten(), nn.Identity()]))
    wide = shape_after(made[-1], shape)[-1]
    return [*made, nn.Linear(wide, m.up_to(3), bias=m.flip())], start


def make(seed: int, plain: bool) -> Case:
    m = Making(random.Random(seed), plain, smooth=seed % 2 == 0)
    torch.manual_seed(seed)
    words = not plain and seed % 7 == 0
    made, start = image_model(m) if m.dice.random() < (0.8 if plain else 0.4) and not words else sequence_model(m)
    model = nn.Sequential(*([nn.Embedding(5, start[-1]), *made] if words else made)).double().eval()
    randomize(model)
    prune(model, m.dice)
    source = torch.Generator().manual_seed(seed)

    def draw_input() -> Tensor:
        if words:
            return torch.randint(5, start[:2], generator=source)
        return torch.randn(start, generator=source, dtype=torch.float64)

    return Case(seed, model, draw_input, m.smooth)
