"""The torch passes on a simulated GPU: no tensor is left on the CPU, and the results are those of the CPU."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from torch import Tensor, nn
from torch.nn.utils import prune as torch_prune

from effsparse_cli import analyze
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.bottleneck.scores import find_bottlenecks
from effsparse_cli.paths.bottleneck.torch_arrays import TorchOperations
from effsparse_cli.paths.edges import KINDS, Edges
from effsparse_cli.paths.real.arrays import RealArrays, Scaled
from effsparse_cli.paths.real.synaptic import find_flow
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.ranking import rank
from tests.formats.torch.perturbed import thin
from tests.paths.bottleneck.test_scores import scored
from tests.paths.simulated_gpu import LeftOnCpuError, simulated_gpu, simulated_gpu_module
from tests.pruning import models
from tests.witnesses.graphs import graphs

GPU = "cuda"


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(self.table(x), src_key_padding_mask=torch.tensor([[False, False, True, True]]))
        return out


class Moves(nn.Module):
    """Gathers, concatenates, pads, pools, and scans with an unknown operator at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.lstm = nn.LSTM(8, 5, bidirectional=True, batch_first=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = self.norm(torch.cat([x[:, [3, 0, 0, 1]].roll(1, -1), self.up(x)[..., ::2, ::2]], 1))
        x = nn.functional.avg_pool2d(nn.functional.max_pool2d(x, 3, 2, 1), 2, 1)
        x = nn.functional.interpolate(x, scale_factor=1.5).flatten(2).transpose(1, 2)
        out: Tensor = self.head(self.lstm(x)[0] * x.mean(-1, keepdim=True)).sort(-1)[0]
        return out


@cache
def graph_of(name: str) -> Graph:
    if name in models.SAMPLES:
        return models.filled(name)
    torch.manual_seed(0)
    model, x = (
        (Attention(), torch.ones(1, 4, dtype=torch.long)) if name == "attention" else (Moves(), torch.ones(1, 2, 7, 7))
    )
    thin(model, 0.5)
    return from_module(model.eval(), (x,), None, LoadOptions())


NETWORKS = (*models.SAMPLES, "attention", "moves")


def counts(found: dict[str, Edges]) -> dict[str, list[int]]:
    return {name: [edges.count(kind) for kind in KINDS] for name, edges in found.items()}


@pytest.mark.parametrize("engine", ["saturated", "pathnorm"])
@pytest.mark.parametrize("name", NETWORKS)
def test_activity(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(name)
    expected = counts(find_paths(graph))
    with simulated_gpu(monkeypatch):
        assert counts(find_paths(graph, engine, GPU)) == expected


@pytest.mark.parametrize("name", NETWORKS)
def test_synflow_scores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(name)
    strengths = {layer: np.abs(made.values()) for layer, made in graph.layers.items() if made.values is not None}
    expected = find_flow(graph, strengths)
    with simulated_gpu(monkeypatch):
        found = find_flow(graph, strengths, GPU)
    assert found.keys() == expected.keys()
    for layer, array in expected.items():
        np.testing.assert_allclose(found[layer], array, rtol=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_bottlenecks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(name)
    scores = rank(graph, PrunePlan(target=Fraction(0), method="random", lsq="igq")).scores
    expected = find_bottlenecks(graph, scores)
    with simulated_gpu(monkeypatch):
        found = find_bottlenecks(graph, scores, GPU)
    for layer, array in expected.items():
        np.testing.assert_array_equal(found[layer], array)


@pytest.mark.slow
@settings(
    deadline=None, max_examples=100, suppress_health_check=list(HealthCheck), derandomize=True, phases=[Phase.generate]
)
@given(graphs())
def test_generated_graphs(graph: Graph) -> None:
    expected, scores = counts(find_paths(graph)), scored(graph, 0)
    bottlenecks = find_bottlenecks(graph, scores)
    with pytest.MonkeyPatch.context() as patch, simulated_gpu(patch):
        for engine in ("saturated", "pathnorm"):
            assert counts(find_paths(graph, engine, GPU)) == expected
        for layer, found in find_bottlenecks(graph, scores, GPU).items():
            np.testing.assert_array_equal(found, bottlenecks[layer])


def test_a_tensor_left_on_the_cpu_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these faults would raise, or silently slow the pass down, on a real GPU."""
    zero = lambda self, a, shape: Scaled(a.data.expand(shape) + torch.zeros(()), a.exponent)  # noqa: E731
    monkeypatch.setattr(RealArrays, "expand", zero)
    with simulated_gpu(monkeypatch), pytest.raises(LeftOnCpuError):
        find_paths(graph_of("resnet_small"), "pathnorm", GPU)
    monkeypatch.setattr(TorchOperations, "_indices", lambda self, index: torch.from_numpy(index))
    scores = rank(graph_of("moves"), PrunePlan(target=Fraction(0))).scores
    with simulated_gpu(monkeypatch), pytest.raises(RuntimeError, match="devices"):
        find_bottlenecks(graph_of("moves"), scores, GPU)


@pytest.mark.parametrize("name", ["linear", "masked", "convolutional", "lookup"])
def test_a_live_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced and lowered on the GPU; only bits, scales and biases come to the CPU."""
    model, x = live(name)
    expected = analyze(model, x).totals
    with simulated_gpu_module(model, x, monkeypatch) as there:
        assert analyze(model, there).totals == expected
    assert 0 < expected.active < expected.connections


def live(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model: nn.Module
    if name == "lookup":
        model = nn.Sequential(nn.Embedding(9, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
        x = torch.zeros(1, 4, dtype=torch.long)
    elif name == "convolutional":
        norm = nn.BatchNorm2d(4)
        model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), norm, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 2))
        x = torch.zeros(1, 2, 4, 4)
    else:
        model, x = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), torch.zeros(1, 4)
    thin(model, 0.5)
    if name == "masked":
        torch_prune.random_unstructured(model.get_submodule("0"), "weight", 0.5)  # type: ignore[no-untyped-call]
    return model.eval(), x


def test_without_a_gpu_the_device_is_refused() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="--device cuda cannot be used here"):
            find_paths(graph_of("figure1"), "saturated", GPU)
