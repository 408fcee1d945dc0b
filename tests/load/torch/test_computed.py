"""Weights computed from several stored tensors: sums are followed to every summand, and what cannot be followed
counts as the operator uses it, with a note."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from effsparse_cli.graph.graph import Graph
from effsparse_cli.load.options import LoadOptions
from effsparse_cli.load.torch import from_module
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
def test_a_product_of_stored_tensors_counts_as_it_is_used(
    weight: Callable[..., Tensor], shapes: dict[str, tuple[int, ...]]
) -> None:
    graph = graph_of(weight, **shapes)
    assert active(graph) == {"weight": 12}
    assert graph.layers["weight"].shape == (4, 3)
    assert any("computed from several stored tensors" in note for note in graph.notes)


def test_what_is_added_to_a_weight_is_said() -> None:
    graph = graph_of(lambda a, up, down: a + up @ down, a=(2, 3), up=(2, 1), down=(1, 3))
    assert active(graph) == {"a": 6}
    assert any("other stored tensors go into the weights of a" in note for note in graph.notes)
