"""Weights computed from several stored tensors: every summand of a sum is a weight, and a stored weight that is mixed
before use is active if any element that it contributes to is."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths import find_paths


class Computed(nn.Module):
    def __init__(self, weight: Callable[..., Tensor], **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.weight_of = weight
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_of(*self.parameters()))


def graph_of(weight: Callable[..., Tensor], **shapes: tuple[int, ...]) -> Graph:
    return from_module(Computed(weight, **shapes), (torch.ones(1, 3),), None, LoadOptions())


def active(graph: Graph) -> dict[str, int]:
    return {name: edges.count("active") for name, edges in find_paths(graph).items()}


def test_every_summand_is_a_weight() -> None:
    graph = graph_of(lambda a, b: a - b, a=(2, 3), b=(2, 3))
    assert active(graph) == {"a": 6, "b": 6}
    assert not graph.notes


@pytest.mark.parametrize(
    ("weight", "shapes"),
    [(lambda a, b: a @ b, {"a": (4, 2), "b": (2, 3)}), (torch.kron, {"a": (2, 1), "b": (2, 3)})],
)
def test_a_product_of_weights_makes_each_factor_a_layer(
    weight: Callable[..., Tensor], shapes: dict[str, tuple[int, ...]]
) -> None:
    graph = graph_of(weight, **shapes)
    matrices = {name: shape for name, shape in shapes.items() if 1 not in shape}
    assert active(graph) == {name: math.prod(shape) for name, shape in matrices.items()}
    assert any("weights mixed before use" in note for note in analyze_graph(graph).notes)


def test_factors_are_active_if_any_element_of_their_product_is() -> None:
    """Row 0 of the product feeds nothing, column 2 of it reads nothing."""

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(2, 4))
            self.last = nn.Parameter(torch.tensor([[0.0, 1.0, 1.0]]))

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(F.linear(x * torch.tensor([1.0, 1.0, 0.0, 1.0]), self.up @ self.down), self.last)

    edges = find_paths(from_module(Product(), (torch.ones(1, 4),), None, LoadOptions()))
    assert edges["up"].mask("active").tolist() == [[False, False], [True, True], [True, True]]
    assert edges["down"].mask("active").tolist() == [[True, True, False, True]] * 2
    assert edges["up"].count("no_output") == edges["down"].count("no_input") == 2


def test_a_low_rank_update_counts_in_addition_to_the_weight() -> None:
    graph = graph_of(lambda a, up, down: a + up @ down, a=(2, 3), up=(2, 2), down=(2, 3))
    assert active(graph) == {"a": 6, "up": 4, "down": 6}
