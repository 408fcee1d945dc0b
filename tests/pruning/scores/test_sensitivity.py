"""Scores from data, compared with their formulas in autograd."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from effsparse_cli.errors import UsageError
from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.gradients import Batch, gradients_of
from effsparse_cli.pruning.plan import Gradients, PrunePlan
from effsparse_cli.pruning.ranking import rank

LAYERS = {"0": "0.weight", "3": "3.weight"}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4)).double()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(16, 8, generator=generator, dtype=torch.float64), torch.arange(16) % 4


def make_inputs() -> tuple[Graph, Gradients]:
    model = network().eval()
    graph = from_module(model, (torch.zeros(1, 8, dtype=torch.float64),), None, LoadOptions())
    return graph, gradients_of(model, LAYERS, [batch()], F.cross_entropy)


def loss_gradients(
    model: nn.Module, temperature: float = 1, masks: Mapping[str, torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """Return differentiable gradients of the loss by the weights, in training mode."""
    weights = [model.get_parameter(name) for name in LAYERS.values()]
    with torch.no_grad():
        for layer, weight in zip(LAYERS, weights, strict=True):
            weight.mul_(masks[layer] if masks else 1)
    x, y = batch()
    loss = F.cross_entropy(model.train()(x) / temperature, y)
    return list(torch.autograd.grad(loss, weights, create_graph=True))


def test_snip() -> None:
    graph, gradients = make_inputs()
    scores = rank(graph, PrunePlan(target=Fraction("0.5"), method="snip", gradients=gradients)).scores
    model = network()
    for (layer, name), slope in zip(LAYERS.items(), loss_gradients(model), strict=True):
        expected = (slope * model.get_parameter(name)).abs().detach().numpy()
        np.testing.assert_allclose(scores[layer], expected, rtol=1e-9)


def test_grasp() -> None:
    graph, gradients = make_inputs()
    scores = rank(graph, PrunePlan(target=Fraction("0.5"), method="grasp", gradients=gradients)).scores
    model = network()
    weights = [model.get_parameter(name) for name in LAYERS.values()]
    found = loss_gradients(model, temperature=200)
    flow = sum((slope.detach() * slope).sum() for slope in found)
    assert isinstance(flow, torch.Tensor)
    for layer, weight, change in zip(LAYERS, weights, torch.autograd.grad(flow, weights), strict=True):
        np.testing.assert_allclose(scores[layer], (weight * change).detach().numpy(), rtol=1e-6, atol=1e-18)


@pytest.mark.parametrize(("method", "returns"), [("snip-iterative", False), ("force", True)])
def test_two_rounds(method: str, returns: bool) -> None:
    """After the first round half of the weights are removed; the second scores what is left."""
    graph, gradients = make_inputs()
    half = prune_graph(graph, PrunePlan(target=Fraction("0.5"), method="snip", direct=True, gradients=gradients)).masks
    plan = PrunePlan(target=Fraction("0.75"), method=method, direct=True, rounds=2, gradients=gradients)
    scores = rank(graph, plan).scores
    masks = {layer: torch.from_numpy(mask) for layer, mask in half.items()}
    values = {layer: network().get_parameter(name).detach() for layer, name in LAYERS.items()}
    expected = {
        layer: (slope * values[layer]).abs().detach().numpy()
        for layer, slope in zip(LAYERS, loss_gradients(network(), masks=masks), strict=True)
    }
    if returns:
        for layer in LAYERS:
            np.testing.assert_allclose(scores[layer], expected[layer], rtol=1e-9)
        return
    order = {layer: scores[layer][half[layer]] for layer in LAYERS}
    gone = np.concatenate([scores[layer][~half[layer]] for layer in LAYERS])
    assert min(part.min() for part in order.values()) > gone.max()
    flat = np.concatenate([expected[layer][half[layer]] for layer in LAYERS])
    assert np.array_equal(np.argsort(flat), np.argsort(np.concatenate(list(order.values()))))


class Watched(Sequence[Batch]):
    """Three batches. Those before the last one that was read must be gone."""

    def __init__(self) -> None:
        self.read: list[weakref.ref[torch.Tensor]] = []

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        x, y = (each[index::3].clone() for each in batch())
        if not len(x) or index >= 3:
            raise IndexError
        assert [each() for each in self.read[:-1]] == [None] * (len(self.read) - 1)
        self.read.append(weakref.ref(x))
        return x, y


def test_batches_are_added_up_one_at_a_time() -> None:
    model = network()
    model[2] = nn.Dropout(0.5)
    weights = [model.get_parameter(name) for name in LAYERS.values()]
    x, y = batch()
    parts = [(x[i::3], y[i::3]) for i in range(3)]
    found = gradients_of(model, LAYERS, Watched(), F.cross_entropy, seed=3)

    def expected(temperature: float) -> list[torch.Tensor]:
        torch.manual_seed(3)
        losses = [F.cross_entropy(model.train()(x) / temperature, y) for x, y in parts]
        return list(torch.autograd.grad(torch.stack(losses).mean(), weights, create_graph=True))

    for slope, array in zip(expected(1), found.of_loss({}).values(), strict=True):
        np.testing.assert_allclose(array, slope.detach().numpy(), rtol=1e-9, atol=1e-15)
    slopes = expected(200)
    flow = torch.stack([(slope.detach() * slope).sum() for slope in slopes]).sum()
    for change, array in zip(torch.autograd.grad(flow, weights), found.of_flow({}).values(), strict=True):
        np.testing.assert_allclose(array, change.numpy(), rtol=1e-6, atol=1e-18)


def test_the_module_is_not_changed() -> None:
    model = network().eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    gradients_of(model, LAYERS, [batch()], F.cross_entropy).of_loss({})
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_errors() -> None:
    graph, _ = make_inputs()
    with pytest.raises(UsageError, match="needs data"):
        rank(graph, PrunePlan(target=Fraction("0.5"), method="snip"))
    x, y = batch()
    for data, loss in (((x[:, :3], y), F.cross_entropy), ((x, y), F.mse_loss)):
        wrong = gradients_of(network(), LAYERS, [data], loss)
        with pytest.raises(UsageError, match="failed on the data"):
            rank(graph, PrunePlan(target=Fraction("0.5"), method="snip", gradients=wrong))
    odd = gradients_of(network(), LAYERS, [(x * float("nan"), y)], F.cross_entropy)
    for method in ("snip", "snip-iterative", "grasp"):
        with pytest.raises(UsageError, match="NaN"):
            rank(graph, PrunePlan(target=Fraction("0.5"), method=method, gradients=odd))
