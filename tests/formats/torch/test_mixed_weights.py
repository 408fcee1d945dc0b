"""Stored weights that are mixed before use: standardized, normalized, or computed by any operator along an axis."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.paths import find_paths
from effsparse_cli.report.analysis.meaning import meaning

Mix = Callable[[Tensor], Tensor]


def standardized(w: Tensor) -> Tensor:
    axes = tuple(range(1, w.ndim))
    return (w - w.mean(axes, keepdim=True)) / (w.var(axes, keepdim=True) + 1e-5).sqrt()


def by_batch_norm(w: Tensor) -> Tensor:
    return F.batch_norm(w.reshape(1, len(w), -1), None, None, training=True).reshape_as(w)


ROWS: dict[str, Mix] = {
    "mean and variance": standardized,
    "batch norm": by_batch_norm,
    "layer norm": lambda w: F.layer_norm(w, w.shape[1:]),
    "unit length": lambda w: F.normalize(w, dim=1),
    "softmax": lambda w: w.softmax(1),
    "cumulative sum": lambda w: w.cumsum(1),
}
WHOLE: dict[str, Mix] = {
    "largest": lambda w: torch.round(w / w.abs().max() * 7) / 7,
    "threshold": lambda w: w * (w.abs() >= w.abs().flatten().kthvalue(3).values),
    "matrix exponential": torch.linalg.matrix_exp,
}


class Net(nn.Module):
    """Four inputs, four hidden neurons of which the output reads the first two, two outputs."""

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self.mix = mix
        self.hidden = nn.Linear(4, 4, bias=False)
        self.last = nn.Linear(4, 2, bias=False)
        with torch.no_grad():
            self.hidden.weight.copy_(torch.arange(1.0, 17).reshape(4, 4).sin())
            self.hidden.weight[0, 1] = 0
            self.last.weight[:, 2:] = 0

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(F.linear(x, self.mix(self.hidden.weight)))
        return y


def active(model: nn.Module, name: str = "hidden") -> list[list[bool]]:
    found: list[list[bool]] = (
        find_paths(from_module(model, (torch.ones(1, 4),), None, LoadOptions()))[name].mask("active").tolist()
    )
    return found


@pytest.mark.parametrize("mix", ROWS.values(), ids=ROWS)
def test_a_weight_mixed_along_its_row_is_active_if_its_row_is(mix: Mix) -> None:
    assert active(Net(mix)) == [[True, False, True, True], [True] * 4, [False] * 4, [False] * 4]


@pytest.mark.parametrize("mix", WHOLE.values(), ids=WHOLE)
def test_a_weight_mixed_with_all_others_is_active_if_any_is(mix: Mix) -> None:
    net = Net(mix)
    kept = net.hidden.weight != 0
    if mix is WHOLE["threshold"]:
        kept &= mix(net.hidden.weight) != 0
    assert active(net) == kept.tolist()


def test_an_elementwise_function_mixes_nothing() -> None:
    assert active(Net(torch.tanh)) == [[True, False, True, True], [True] * 4, [False] * 4, [False] * 4]
    assert not from_module(Net(torch.tanh), (torch.ones(1, 4),), None, LoadOptions()).mixed_weights


def test_a_learned_mask_is_not_a_layer() -> None:
    class Masked(Net):
        def __init__(self) -> None:
            super().__init__(lambda w: w)
            self.scores = nn.Parameter(torch.tensor([[1.0, 1, -1, -1]] * 4))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(F.linear(x, self.hidden.weight * (self.scores > 0)))
            return y

    assert active(Masked()) == [[True, True, False, False]] * 2 + [[False] * 4] * 2
    graph = from_module(Masked(), (torch.ones(1, 4),), None, LoadOptions())
    assert list(graph.layers) == ["hidden", "last"]


@pytest.mark.parametrize(
    "wrap",
    [
        torch.nn.utils.weight_norm,
        torch.nn.utils.spectral_norm,
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
    ],
)
@pytest.mark.filterwarnings("ignore:.*_norm")
def test_normalized_weights_keep_their_names_and_gains_are_not_connections(wrap: Callable[..., nn.Module]) -> None:
    model = nn.Sequential(wrap(nn.Conv2d(2, 4, 3)), nn.Flatten(), wrap(nn.Linear(16, 2)))
    graph = from_module(model.eval(), (torch.ones(1, 2, 4, 4),), None, LoadOptions())
    result = analyze_graph(graph)
    assert [(layer.name, layer.op, layer.counts.active) for layer in result.layers] == [
        ("0", "conv2d", 72),
        ("2", "linear", 32),
    ]
    assert result.narrowest in ("0", "2")


def test_the_report_notes_that_stored_zeros_prune_nothing() -> None:
    def notes(mix: Mix) -> str:
        return "\n".join(analyze_graph(from_module(Net(mix), (torch.ones(1, 4),), None, LoadOptions())).notes)

    assert "weights mixed before use in hidden" in notes(standardized)
    assert "a zero stored in hidden prunes nothing" in notes(standardized)
    assert "weights mixed before use in hidden" in notes(ROWS["unit length"])
    assert "prunes nothing" not in notes(ROWS["unit length"])


def test_no_compression_is_stated_where_zeros_prune_nothing() -> None:
    def first(mix: Mix) -> str:
        return meaning(analyze_graph(from_module(Net(mix), (torch.ones(1, 4),), None, LoadOptions())))[0]

    assert "prune nothing" in first(standardized)
    assert "compressed" not in first(standardized)
    assert "compressed" in first(ROWS["unit length"])


def test_counts_of_reasons_add_up_for_mixed_weights() -> None:
    for mix in (*ROWS.values(), *WHOLE.values()):
        counts = analyze_graph(from_module(Net(mix), (torch.ones(1, 4),), None, LoadOptions())).layers[0].counts
        assert counts.kept == counts.active + counts.no_input + counts.no_output + counts.both + counts.padding


@pytest.mark.parametrize("engine", ["saturated", "pathnorm"])
def test_the_engines_agree_on_mixed_weights(engine: str) -> None:
    for mix in (*ROWS.values(), *WHOLE.values()):
        graph = from_module(Net(mix), (torch.ones(1, 4),), None, LoadOptions())
        assert analyze_graph(graph, engine=engine).layers == analyze_graph(graph).layers
