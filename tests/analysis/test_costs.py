"""Multiply-adds and bytes of active connections: by hand, and against a convolution of ones, whose outputs add up to
the number of products with an input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, conv_transpose2d

import effsparse
from effsparse_cli.analysis.groups import group_layers
from effsparse_cli.analysis.results import Analysis, Counts, LayerResult


def measured(model: nn.Module, *shape: int) -> Analysis:
    return effsparse.analyze(model, torch.zeros(*shape), costs=True, active_masks=True)


def test_lenet_by_hand() -> None:
    """A dense LeNet-5: 5x5 kernels without padding on 32x32 and 14x14 maps, then three linear layers."""
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Linear(120, 84),
        nn.Linear(84, 10),
    )
    layers = measured(model, 1, 3, 32, 32).layers
    assert [layer.multiply_adds for layer in layers] == [450 * 28 * 28, 2400 * 10 * 10, 48_000, 10_080, 840]
    assert [layer.bytes for layer in layers] == [4 * n for n in (450, 2400, 48_000, 10_080, 840)]
    assert [layer.active_bytes for layer in layers] == [layer.bytes for layer in layers]


def test_padding_by_hand() -> None:
    """A 3x3 kernel on a 4x4 map with padding: the centre reads 16 positions, an edge 12, a corner 9."""
    conv = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    with torch.no_grad():
        conv.weight.fill_(1)
        conv.weight[0, 0, 0, 0] = 0  # a corner
        conv.weight[0, 0, 1, 0] = 0  # an edge
    (layer,) = measured(conv, 2, 1, 4, 4).layers
    assert layer.multiply_adds == 2 * (16 + 3 * 12 + 3 * 9)
    assert (layer.bytes, layer.active_bytes) == (36, 28)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "geometry",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": (3, 2), "stride": (2, 3), "padding": (2, 1)},
        {"kernel_size": 3, "dilation": 2, "padding": 2, "groups": 2},
        {"kernel_size": 5, "padding": 2, "stride": 2},
    ],
)
def test_as_many_products_as_a_convolution_of_ones(geometry: dict[str, Any], transposed: bool) -> None:
    torch.manual_seed(0)
    build, apply = (nn.ConvTranspose2d, conv_transpose2d) if transposed else (nn.Conv2d, conv2d)
    model = nn.Sequential(build(4, 6, **geometry, bias=False))
    weight: Any = model[0].weight
    weight.data *= torch.rand(weight.shape) < 0.4
    found = measured(model, 2, 4, 5, 4)
    active = torch.from_numpy(found.active_masks["0"]).double()
    others = {name: value for name, value in geometry.items() if name != "kernel_size"}
    # The output of ones counts, at each position, the active connections that read the input there.
    assert found.layers[0].multiply_adds == int(apply(torch.ones(2, 4, 5, 4).double(), active, **others).sum())


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3, bias=False)
        self.table = nn.Embedding(5, 3)
        self.lstm = nn.LSTM(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(torch.relu(self.fc(x)))
        steps: torch.Tensor = self.lstm(x)[0]
        return steps


def test_several_uses_and_steps_add_up() -> None:
    layers = measured(Shared(), 7, 1, 3).layers
    assert layers["fc"].multiply_adds == 2 * 7 * 9
    assert layers["lstm.weight_ih_l0"].multiply_adds == 7 * 4 * 2 * 3
    # The first step multiplies by the initial state.
    assert layers["lstm.weight_hh_l0"].multiply_adds == 7 * 4 * 2 * 2


def test_unknown_where_it_cannot_be_counted() -> None:
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), nn.Linear(3, 2))
    layers = measured(model, 1, 3).layers
    assert [layer.multiply_adds for layer in layers] == [None, 6]


def test_costs_are_counted_on_request_only() -> None:
    (layer,) = effsparse.analyze(nn.Linear(3, 3), torch.zeros(1, 3)).layers
    assert (layer.multiply_adds, layer.bytes, layer.active_bytes) == (None, None, None)


def layer(name: str, multiply_adds: int | None = 1, pattern: str = "") -> LayerResult:
    counts = Counts(connections=10, kept=5, active=3, no_input=2)
    return LayerResult(name, "linear", (2, 5), counts, 2, 1, pattern, multiply_adds, 40, 12)


def test_groups() -> None:
    layers = [layer("a.0.x", pattern="2:4"), layer("a.0.y", pattern="2:4"), layer("a.1", None), layer("b.weight")]
    one, two, three = (group_layers(layers, depth) for depth in (1, 2, 3))
    assert [(x.name, x.op, x.shape) for x in one] == [("a", "3 layers", ()), ("b", "linear", (2, 5))]
    assert one[0].counts == Counts(connections=30, kept=15, active=9, no_input=6)
    assert (one[0].neurons, one[0].dead_neurons, one[0].pattern) == (6, 3, "")
    assert (one[0].multiply_adds, one[0].bytes, one[0].active_bytes) == (None, 120, 36)
    assert [(x.name, x.pattern, x.multiply_adds) for x in two] == [
        ("a.0", "2:4", 2),
        ("a.1", "", None),
        ("b.weight", "", 1),
    ]
    assert three == layers
    assert [x.name for x in group_layers([layer("/enc/0/fc/w"), layer("/enc/1/fc/w")], 1)] == ["/enc"]
