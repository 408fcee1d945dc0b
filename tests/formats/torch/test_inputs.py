"""The inputs that a model is traced with if the user gives none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from tests.formats.torch.cases import L
from tests.formats.torch.functional import Functional


def read(model: nn.Module, **shapes: tuple[int, ...]) -> Graph:
    named = {name if name != "first" else "": shape for name, shape in shapes.items()}
    return from_module(model, (), None, LoadOptions(input_shapes=named))


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.nodes[i].shape for i in graph.sources]


INFERRED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "linear": (lambda: nn.Sequential(nn.Flatten(), L(784, 30), nn.ReLU(), L(30, 10)), (1, 784), "the first layer"),
    "usual image": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 5), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.Flatten(), L(400, 10)
        ),
        (1, 3, 32, 32),
        "the only common size that the model accepts",
    ),
    "unusual image": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), L(144, 2)),
        (1, 3, 8, 8),
        "the only size that the model accepts",
    ),
    "signal": (
        lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.Flatten(), L(40, 2)),
        (1, 3, 12),
        "the only size that the model accepts",
    ),
    "tokens": (
        lambda: nn.Sequential(nn.Embedding(10, 4), L(4, 2)),
        (1, 8),
        "the first layer, an embedding: 8 tokens",
    ),
    "steps": (lambda: nn.LSTM(5, 4, batch_first=True), (1, 8, 5), "the first layer, recurrent: 8 steps"),
    "attention": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16),
        (8, 1, 8),
        "the first layer, attention: 8 tokens",
    ),
}


@pytest.mark.parametrize("name", INFERRED)
def test_shapes_that_the_model_determines(name: str) -> None:
    make, shape, why = INFERRED[name]
    graph = read(make())
    assert shapes(graph) == [shape]
    assert f"input shape {'x'.join(map(str, shape))} inferred from {why}" in graph.notes


def test_a_shape_that_the_user_gives_adds_no_note() -> None:
    graph = read(nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1)), first=(1, 3, 9, 9))
    assert shapes(graph) == [(1, 3, 9, 9)]
    assert graph.notes == ()


def test_input_without_a_name() -> None:
    model = Functional(lambda m, x: m.a(x), a=L(4, 3))
    assert shapes(read(model)) == [(1, 4)]
    assert shapes(read(model, first=(2, 4))) == [(2, 4)]


def test_a_model_that_takes_several_sizes_has_an_open_dimension() -> None:
    graph = read(nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1)))
    assert shapes(graph) == [(1, 3, 32, 32)]
    assert graph.open_dimensions is not None
    assert graph.open_dimensions.sizes == {"input[2]": 32, "input[3]": 32}
    assert graph.open_dimensions.shapes(4) == {"input": (1, 3, 128, 128)}


def test_a_kernel_longer_than_any_image_is_for_audio() -> None:
    assert shapes(read(nn.Sequential(nn.Conv1d(1, 4, 400, 160), nn.Conv1d(4, 4, 3)))) == [(1, 1, 1024)]


@pytest.mark.parametrize("name", ["linear", "usual image", "unusual image"])
def test_a_size_that_the_model_fixes_is_not_open(name: str) -> None:
    assert read(INFERRED[name][0]()).open_dimensions is None


def test_the_error_about_an_undetermined_shape_suggests_one() -> None:
    """The first layer does not determine the shape, but one of the candidates runs."""
    model = nn.Sequential(nn.BatchNorm1d(7), nn.Conv1d(7, 4, 3), nn.Flatten(), L(120, 2))
    with pytest.raises(UsageError, match=r"Its input is input float32.*: --input-shape input=1,7,32"):
        read(model)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.fc = nn.Embedding(10, 4), L(4, 2)

    def forward(self, input_ids: Tensor, scale: Tensor, mask: Tensor | None = None) -> Tensor:
        assert input_ids.dtype == torch.int64
        return self.fc(self.table(input_ids) * scale)  # type: ignore[no-any-return]


def test_several_inputs_by_name() -> None:
    graph = read(TwoInputs(), first=(1, 6), scale=(1, 6, 4))
    assert shapes(graph) == [(1, 6), (1, 6, 4)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"needs the shapes of input_ids, scale.*--input-shape input_ids=1,8 --input-shape scale="),
        ({"first": (1, 6)}, r"needs the shapes of scale"),
        ({"first": (1, 6), "nosuch": (1,)}, r"no input nosuch; its inputs are: input_ids, scale, mask"),
        ({"first": (1, 6), "scale": (1, 5, 4)}, r"does not run on input 1x6, 1x5x4: The size of tensor"),
    ],
)
def test_wrong_inputs(given: dict[str, tuple[int, ...]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(TwoInputs(), **given)
