"""Compare pruning to an effective target with the paper's method, and SynFlow with a direct implementation.

The paper's method is a binary search on the ranking down to one connection. Each step applies the masks to the torch
model and runs one float32 autograd pass of its path norm: absolute weights, no biases, linear activations, norms as
scales, average pooling. Run `python -m benchmarks.prune [--small]`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import torch
from torch import nn

from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan, connections_left
from effsparse_cli.pruning.ranking import Ranking, rank
from tests.torchvision_models import models

SIZE = (1, 3, 224, 224)
TARGET = Fraction("0.99")
RANKINGS = (("magnitude", "global"), ("random", "igq"))


class PathNorm:
    """The paper's pass on a torch model: a connection is active if the path norm has a non-zero gradient there."""

    def __init__(self, model: nn.Module) -> None:
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.ReLU | nn.ReLU6 | nn.Dropout | nn.BatchNorm2d):
                    setattr(module, name, nn.Identity())
                elif isinstance(child, nn.MaxPool2d):
                    setattr(module, name, nn.AvgPool2d(child.kernel_size, child.stride, child.padding))
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.bias = None
        self.model = model.eval()
        self.weights = {n: m.weight for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}

    def active(self, masks: Mapping[str, torch.Tensor]) -> int:
        for name, weight in self.weights.items():
            # Masks are divided by the mean number kept in a row, so that float32 neither overflows nor underflows.
            weight.data = masks[name] / max(float(masks[name].sum()) / len(weight), 1.0)
            weight.grad = None
        self.model(torch.ones(SIZE)).sum().backward()
        return sum(
            int(((weight.grad != 0) & masks[name]).sum())
            for name, weight in self.weights.items()
            if weight.grad is not None
        )


def search(norm: PathNorm, ranking: Ranking, want: int) -> tuple[int, int]:
    """Run the paper's binary search; return the number of active connections and of passes."""
    scores = {name: torch.from_numpy(array) for name, array in ranking.scores.items()}
    order = np.sort(np.concatenate([array.reshape(-1) for array in ranking.scores.values()]))
    low, high, found, passes = 0, len(order), 0, 0
    while high - low > 1:
        middle = (low + high) // 2
        active = norm.active({name: score >= float(order[middle]) for name, score in scores.items()})
        passes += 1
        if active >= want:
            low, found = middle, active
        else:
            high = middle
    return found, passes


def timed(run: Callable[[], object], repeats: int = 1) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def compare(name: str, build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = build().eval()
    graph = from_module(model, (torch.zeros(SIZE),), None, LoadOptions())
    for method, lsq in RANKINGS:
        plan = PrunePlan(target=TARGET, method=method, lsq=lsq)
        ours = prune_graph(graph, plan)
        seconds = timed(lambda plan=plan: prune_graph(graph, plan), 2)  # type: ignore[misc]
        ranking = rank(graph, plan)
        scoring = timed(lambda plan=plan: rank(graph, plan))  # type: ignore[misc]
        torch.manual_seed(0)
        norm = PathNorm(build())
        start = time.perf_counter()
        active, passes = search(norm, ranking, connections_left(TARGET, ours.connections))
        theirs = time.perf_counter() - start + scoring
        print(
            f"{name}, {method} {lsq}: {seconds:.2f} s (scores {scoring:.2f}) against {theirs:.1f} s, {passes} passes: "
            f"{theirs / seconds:.1f}x; active {ours.active:,} and {active:,} of {ours.connections:,}",
            flush=True,
        )


def synflow_in_torch(model: nn.Module, rounds: int) -> None:
    """SynFlow as its authors describe it: float64, absolute weights, one threshold over all scores per round."""
    norm = PathNorm(model)
    for parameter in norm.model.parameters():
        parameter.data = parameter.data.double().abs()
    original = {name: weight.detach().clone() for name, weight in norm.weights.items()}
    masks = {name: torch.ones_like(weight) for name, weight in original.items()}
    for k in range(1, rounds + 1):
        for name, weight in norm.weights.items():
            weight.data, weight.grad = original[name] * masks[name], None
        norm.model(torch.ones(SIZE, dtype=torch.float64)).sum().backward()
        scores = {n: (w.grad * w.data).abs() for n, w in norm.weights.items() if w.grad is not None}
        flat = torch.cat([score.flatten() for score in scores.values()])
        gone = flat.numel() - round(float(1 - TARGET) ** (k / rounds) * flat.numel())
        bar = torch.kthvalue(flat, max(gone, 1)).values
        masks = {name: (score > bar).double() for name, score in scores.items()}


def compare_synflow(rounds: int) -> None:
    build = models().resnet18
    graph: Graph = from_module(build().eval(), (torch.zeros(SIZE),), None, LoadOptions())
    ours = timed(lambda: prune_graph(graph, PrunePlan(target=TARGET, method="synflow", rounds=rounds)))
    theirs = timed(lambda: synflow_in_torch(build(), rounds))
    print(f"ResNet-18, synflow, {rounds} rounds: {ours:.1f} s against {theirs:.1f} s: {theirs / ours:.2f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--small", action="store_true", help="smoke test with one small model and few rounds")
    parser.add_argument("--skip-synflow", action="store_true", help="skip the comparison of SynFlow")
    small, skip = vars(parser.parse_args()).values()
    if small:
        compare("SqueezeNet 1.1", models().squeezenet1_1)
    else:
        compare("ResNet-50", models().resnet50)
        compare("VGG-19", vgg19)
    if not skip:
        compare_synflow(2 if small else 100)


def vgg19() -> nn.Module:
    """Return the paper's VGG-19 (one linear layer after the convolutions) for 224x224 images."""
    model = models().vgg19_bn()
    model.avgpool = nn.AdaptiveAvgPool2d((1, 1))
    model.classifier = nn.Linear(512, 1000)
    return model  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
