"""Synaptic flow against autograd, on plain and residual convolutional nets; and at a depth where floats end."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Layer
from effsparse_cli.paths.real.synaptic import find_flow


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, 2, 1, bias=False)
        self.branch = nn.Conv2d(6, 6, 3, 1, 2, dilation=2, groups=2, bias=False)
        self.head = nn.Linear(6 * 16, 5, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        out: Tensor = self.head((x + torch.relu(self.branch(x))).flatten(1))
        return out


def test_equals_the_gradient_times_the_weight() -> None:
    torch.manual_seed(0)
    model = Residual().double()
    x = torch.ones(1, 3, 8, 8, dtype=torch.float64)
    strengths = {name: getattr(model, name).weight.detach().abs().numpy() for name in ("stem", "branch", "head")}
    flow = find_flow(from_module(model, (x,), None, LoadOptions()), strengths)
    positive = copy.deepcopy(model)
    for parameter in positive.parameters():
        parameter.data.abs_()
    norm = positive(x).sum()
    for (name, found), parameter in zip(flow.items(), positive.parameters(), strict=True):
        (gradient,) = torch.autograd.grad(norm, parameter, retain_graph=True)
        expected = (gradient * parameter).detach().numpy() / float(norm.detach())
        np.testing.assert_allclose(found / flow["stem"].sum(), expected, rtol=1e-12, err_msg=name)


def test_a_thousand_layers_have_finite_flow() -> None:
    """In float32 the path norm of this net is infinite; every layer still passes the same total on."""
    rng, b, strengths = np.random.default_rng(0), Builder(), {}
    x = b.source("x", (1, 4))
    for i in range(1000):
        strengths[f"fc{i}"] = rng.random((4, 4)) * 10
        x = b.contract(x, b.weight(Layer(f"fc{i}", "linear", (4, 4), lambda: np.ones((4, 4), bool))))
    totals = [found.sum() for found in find_flow(b.finish([x]), strengths).values()]
    np.testing.assert_allclose(totals, totals[0], rtol=1e-9)
    assert 0 < totals[0] < np.inf
