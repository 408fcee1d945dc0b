"""Networks with known results: random pruning of the paper's models, and a ResNet on too small an image."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from effsparse_cli.graph import windows
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths import find_paths
from tests.torchvision_models import models
from tests.witnesses.measured import measure

LENET = ((300, 784), (100, 300), (10, 100))
VGG = (64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512, 0)
"""VGG-19 for 32x32 images; 0 is a max pooling by two."""
DENSITIES = {
    (10, "uniform"): (0.1, 0.1, 0.1),
    (10, "erk"): (0.07957, 0.2302, 1.0),
    (10, "igq"): (0.06445, 0.3507, 0.9419),
    (100, "uniform"): (0.01, 0.01, 0.01),
    (100, "erk"): (0.007697, 0.02227, 0.1837),
    (100, "igq"): (0.004618, 0.0351, 0.5218),
}


def keep_at_random(shape: Sequence[int], density: float, rng: np.random.Generator) -> Bools:
    size = int(np.prod(shape))
    kept = np.zeros(size, dtype=bool)
    kept[rng.choice(size, round(density * size), replace=False)] = True
    return kept.reshape(tuple(shape))


def igq(sizes: Sequence[int], density: float) -> list[float]:
    """Return densities 1 / (1 + F n) per layer, with F such that the total is `density`."""
    low, high = 0.0, 1.0
    for _ in range(100):
        f = (low + high) / 2
        total = sum(n / (1 + f * n) for n in sizes)
        low, high = (f, high) if total > density * sum(sizes) else (low, f)
    return [1 / (1 + f * n) for n in sizes]


def count_active(graph: Graph) -> int:
    return sum(int(edges.mask("active").sum()) for edges in find_paths(graph).values())


def chain(masks: Sequence[Bools]) -> Graph:
    """Return a chain of fully connected layers."""
    b = Builder()
    x = b.source("x", (1, masks[0].shape[1]))
    for i, kept in enumerate(masks):
        x = b.contract(x, b.weight(Layer(f"fc{i}", "linear", kept.shape, lambda kept=kept: kept)))  # type: ignore[misc]
    return b.finish([x])


def vgg(masks: Sequence[Bools]) -> Graph:
    b = Builder()
    x, left = b.source("image", (1, 3, 32, 32)), iter(masks)
    for wide in VGG:
        axis = (
            windows.sliding(b.shape(x)[-1], 3, before=1, after=1)
            if wide
            else windows.sliding(b.shape(x)[-1], 2, stride=2)
        )
        if wide:
            kept = next(left)
            layer = Layer(f"conv{len(b.layers)}", "conv2d", kept.shape, lambda kept=kept: kept)  # type: ignore[misc]
            x = b.contract(x, b.weight(layer), (axis, axis))
        else:
            x = b.window(x, (None, None, axis, axis))
    kept = next(left)
    x = b.contract(b.reshape(x, (1, 512)), b.weight(Layer("head", "linear", kept.shape, lambda: kept)))
    return b.finish([x])


@pytest.mark.parametrize(
    ("compression", "quota", "expected"),
    [
        (10, "uniform", 25_588),
        (10, "erk", 26_621),
        (10, "igq", 26_621),
        (100, "uniform", 252),
        (100, "erk", 2_318),
        (100, "igq", 2_607),
    ],
)
def test_random_pruning_of_lenet_300_100(compression: int, quota: str, expected: int) -> None:
    """Compare the mean of 20 seeds with the paper's, which used other seeds."""
    counts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        densities = DENSITIES[compression, quota]
        counts.append(count_active(chain([keep_at_random(s, d, rng) for s, d in zip(LENET, densities, strict=True)])))
    spread = 3 * np.std(counts, ddof=1) * np.sqrt(2 / 20) + 1
    assert abs(np.mean(counts) - expected) <= spread, (np.mean(counts), spread)


def test_vgg_19_pruned_1000x_has_fewer_active_than_a_channel_count() -> None:
    """With IGQ: about 17,851 active by channels and 15,283 by positions, because of the 2x2 maps."""
    channels = [3, *(n for n in VGG if n)]
    shapes: list[tuple[int, ...]] = [(n, c, 3, 3) for c, n in itertools.pairwise(channels)]
    shapes.append((100, 512))
    rng = np.random.default_rng(0)
    densities = igq([int(np.prod(s)) for s in shapes], 0.001)
    masks = [keep_at_random(s, d, rng) for s, d in zip(shapes, densities, strict=True)]
    assert count_active(vgg(masks)) == pytest.approx(15_283, rel=0.03)
    taps = [m.reshape(*m.shape[:2], -1).sum(-1) for m in masks]
    by_channel = find_paths(chain([n > 0 for n in taps]))
    coarse = sum(int(n[edges.mask("active")].sum()) for n, edges in zip(taps, by_channel.values(), strict=True))
    assert coarse == pytest.approx(17_851, rel=0.03)


@pytest.mark.parametrize(("size", "first", "others"), [(32, 5, 8), (224, 0, 0)])
def test_dense_resnet_18_on_a_small_image_has_padding_connections(size: int, first: int, others: int) -> None:
    torch.manual_seed(0)
    model = models().resnet18().eval()
    found = measure(model, torch.zeros(1, 3, size, size))
    ninths = {name: edges.mask("padding").sum() * 9 / edges.mask("kept").size for name, edges in found.items()}
    names = [f"layer4.{block}.conv{i}.weight" for block in (0, 1) for i in (1, 2)]
    assert [ninths[name] for name in names] == [first, others, others, others]
    assert size == 32 or not any(ninths.values())
