"""Weights are traced back to the user's parameters: names, shapes, masks, wrappers, ties and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils import prune as torch_prune

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Weight
from effsparse_cli.paths import find_paths
from tests.formats.torch.cases import L, r
from tests.formats.torch.functional import Functional
from tests.formats.torch.perturbed import lowered


def kept(graph: Graph, name: str) -> Tensor:
    return torch.tensor(graph.layers[name].kept())


def half(*shape: int) -> Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.5).float()


prune: Any = torch_prune
"""Its functions have no types."""


class Masked(nn.Module):
    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.mask  # type: ignore[operator]


def test_pruned_weight_is_named_and_kept_by_its_mask() -> None:
    """A zero that the mask keeps counts as kept."""
    model: Any = nn.Sequential(L(4, 3))
    prune.custom_from_mask(model[0], "weight", half(3, 4))
    model[0].weight_orig.data.zero_()
    graph = lowered(model, (r(1, 4),))
    assert torch.equal(kept(graph, "0"), half(3, 4).bool())
    assert "masks are applied to 1 of 1 weight tensors" in graph.notes


def test_two_masks_are_combined() -> None:
    model: Any = nn.Sequential(L(6, 5))
    prune.random_unstructured(model[0], "weight", 0.4)
    prune.ln_structured(model[0], "weight", 0.4, n=2, dim=0)
    assert torch.equal(kept(lowered(model, (r(1, 6),)), "0"), model[0].weight_mask.bool())


@pytest.mark.parametrize("shape", [(3, 4), (3, 1)])
def test_mask_beside_a_weight(shape: tuple[int, ...]) -> None:
    mask = half(*shape)
    model: Any = Functional(lambda m, x: F.linear(x, m.weight * m.mask), weight=nn.Parameter(torch.ones(3, 4) * 2))
    model.register_buffer("mask", mask)
    assert torch.equal(kept(lowered(model, (r(1, 4),)), "weight"), mask.bool().expand(3, 4))


def test_a_scale_of_ones_is_not_a_mask() -> None:
    model: Any = Functional(
        lambda m, x: F.linear(x, m.a.weight * m.gain), a=L(4, 3), gain=nn.Parameter(torch.ones(3, 1))
    )
    model.a.weight.data[0] = 0
    graph = lowered(model, (r(1, 4),))
    assert int(kept(graph, "a").sum()) == 8
    assert graph.notes == ()


def test_binary_weight_under_a_mask() -> None:
    model: Any = Functional(lambda m, x: F.linear(x, m.weight * m.weight_mask), weight=nn.Parameter(torch.ones(3, 4)))
    model.register_buffer("weight_mask", half(3, 4))
    assert torch.equal(kept(lowered(model, (r(1, 4),)), "weight"), half(3, 4).bool())


def test_parametrized_masks() -> None:
    model: Any = nn.Sequential(L(4, 3))
    parametrize.register_parametrization(model[0], "weight", Masked(half(3, 4)))
    parametrize.register_parametrization(model[0], "weight", Masked(half(3, 4).flip(0)))
    graph = lowered(model, (r(1, 4),))
    assert torch.equal(kept(graph, "0"), model[0].weight != 0)


@pytest.mark.parametrize("wrap", [torch.nn.utils.weight_norm, parametrizations.weight_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_a_zero_scale_of_weight_norm_cuts_its_row(wrap: object) -> None:
    model: Any = nn.Sequential(wrap(L(4, 3)))  # type: ignore[operator]
    scale, direction = sorted((p for p in model.parameters() if p.dim() == 2), key=torch.numel)
    with torch.no_grad():
        scale.reshape(-1)[0] = 0
        direction[1, 2] = 0
    graph = lowered(model, (r(1, 4),))
    expected = torch.ones(3, 4, dtype=torch.bool)
    expected[1, 2] = False
    assert torch.equal(kept(graph, "0"), expected)
    expected[0] = False
    assert find_paths(graph)["0"].mask("active").tolist() == expected.tolist()


@pytest.mark.parametrize("wrap", [torch.nn.utils.spectral_norm, parametrizations.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*spectral_norm")
def test_spectral_norm_is_a_scale(wrap: object) -> None:
    model: Any = nn.Sequential(wrap(L(4, 3)))  # type: ignore[operator]
    next(p for p in model.parameters() if p.dim() == 2).data[1] = 0
    graph = lowered(model, (r(1, 4),))
    assert kept(graph, "0").sum(1).tolist() == [4, 0, 4]
    assert list(graph.layers) == ["0"]


def test_attention_reads_its_masked_weight_without_the_hook() -> None:
    model: Any = Functional(lambda m, x: m.a(x, x, x)[0], a=nn.MultiheadAttention(8, 2, batch_first=True))
    prune.custom_from_mask(model.a.out_proj, "weight", half(8, 8))
    graph = lowered(model, (r(1, 3, 8),))
    assert list(graph.layers) == ["a.in_proj_weight", "a.out_proj"]
    assert torch.equal(kept(graph, "a.out_proj"), half(8, 8).bool())


def test_names_and_operators() -> None:
    model: Any = nn.ModuleDict({"conv": nn.Conv1d(4, 5, 3), "lstm": nn.LSTM(5, 6)})
    wrapper = Functional(lambda m, x: m.parts["lstm"](m.parts["conv"](x).permute(2, 0, 1))[0], parts=model)
    layers = lowered(wrapper, (r(1, 4, 8),)).layers
    assert {name: layer.op for name, layer in layers.items()} == {
        "parts.conv": "conv1d",
        "parts.lstm.weight_ih_l0": "lstm",
        "parts.lstm.weight_hh_l0": "lstm",
    }
    assert layers["parts.lstm.weight_hh_l0"].shape == (24, 6)


def test_tied_weights_are_one_layer() -> None:
    """A table that is also the output layer is a weight like any other."""
    model: Any = Functional(lambda m, x: m.head(m.table(x)), table=nn.Embedding(10, 4), head=L(4, 10, bias=False))
    model.head.weight = model.table.weight
    (layer,) = lowered(model, (torch.tensor([[1, 2]]),)).layers.values()
    assert (layer.name, layer.op, layer.shape, layer.embedding) == ("table", "linear", (10, 4), False)


def test_a_table_that_is_only_looked_up_is_an_embedding() -> None:
    model: Any = nn.Sequential(nn.Embedding(10, 4), L(4, 2))
    layers = lowered(model, (torch.tensor([[1, 2]]),)).layers
    assert [layer.embedding for layer in layers.values()] == [True, False]


def test_transposed_and_sliced_weights_are_views() -> None:
    model: Any = Functional(lambda m, x: x[:, :3] @ m.w[:3] + F.linear(x, m.w.t()), w=nn.Parameter(torch.ones(4, 2)))
    graph = lowered(model, (r(1, 4),))
    views = [node.op.view for node in graph.nodes if isinstance(node.op, Weight)]
    assert [(view.strides, view.index) for view in views] == [((1, 2), None), ((1, 2), None)]
    assert graph.layers["w"].shape == (4, 2)


def test_view_stored_beside_its_owner_is_tied() -> None:
    model: Any = Functional(lambda m, x: F.linear(x, m.w) @ m.turned, w=nn.Parameter(torch.ones(3, 4)))
    model.register_buffer("turned", model.w.data.t()[:3])
    assert list(lowered(model, (r(1, 4),)).layers) == ["w"]


def test_constants_that_are_not_stored_are_not_connections() -> None:
    model: Any = Functional(lambda m, x: m.a(x) @ m.mixing, a=L(4, 3))
    model.register_buffer("mixing", torch.eye(3), persistent=False)
    assert list(lowered(model, (r(1, 4),)).layers) == ["a"]


def test_unused_weights_are_listed() -> None:
    model: Any = Functional(lambda m, x: m.a(x), a=L(4, 3), b=L(4, 3))
    assert lowered(model, (r(1, 4),)).unused == ("b",)


def test_kept_reads_the_current_weights() -> None:
    model: Any = nn.Sequential(L(4, 3))
    graph = lowered(model, (r(1, 4),))
    model[0].weight.data[0] = 0
    assert kept(graph, "0").sum(1).tolist() == [0, 4, 4]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_zeros_of_every_type(dtype: torch.dtype) -> None:
    """Minus zero is zero; NaN is kept, and noted."""
    model: Any = nn.Sequential(L(4, 1)).to(dtype)
    model[0].weight.data = torch.tensor([[0.0, -0.0, float("nan"), 1.0]], dtype=dtype)
    graph = lowered(model, (r(1, 4).to(dtype),))
    assert kept(graph, "0").tolist() == [[False, False, True, True]]
    assert "NaN or infinite values in 1 weight tensor (0): they count as kept" in graph.notes


def test_values_are_those_before_the_mask() -> None:
    model: Any = nn.Sequential(L(4, 3))
    original = model[0].weight.detach().numpy().copy()
    prune.custom_from_mask(model[0], "weight", half(3, 4))
    values = lowered(model, (r(1, 4),)).layers["0"].values
    assert values is not None
    assert np.array_equal(values(), original)


@pytest.mark.parametrize("cuts", [True, False])
def test_a_norm_scale_of_zero_cuts_unless_norms_do_not_cut(cuts: bool) -> None:
    model: Any = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.BatchNorm2d(2), nn.Conv2d(2, 1, 1, bias=False))
    model[1].weight.data[0] = 0
    graph = lowered(model, (r(1, 1, 2, 2),), options=LoadOptions(norms_cut=cuts))
    assert find_paths(graph)["0"].count("active") == (1 if cuts else 2)
