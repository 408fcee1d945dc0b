"""Draw the pictures of the documentation: `python docs/pictures/make.py` writes one SVG file per function here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import effsparse  # noqa: E402
from effsparse_cli.report.figure import build_figure, save_figure  # noqa: E402

LENET_300 = ROOT / "sample_models" / "lenet300_uniform99.pt"
LENET_5 = ROOT / "sample_models" / "lenet5_igq.pt"
ACTIVE, INACTIVE, PRUNED = "#0072b2", "#d55e00", "#c3ccd4"
Edges = Mapping[tuple[int, int, int], float]
"""Score of each edge, by layer, source and target."""


def draw_curve(path: Path) -> None:
    module = torch.load(LENET_300, weights_only=False)
    for parameter in module.parameters():
        parameter.data.fill_(1)
    curves = effsparse.curve(module, torch.zeros(1, 784), method="random", lsq=["uniform", "erk", "igq"], seeds=5)
    replace(curves, model="LeNet-300-100").plot(path)


def draw_igq(path: Path) -> None:
    figure, axes = build_figure()
    sizes = [10 ** (2 + 0.1 * i) for i in range(41)]
    for target, force in ((0.9, _force(0.1)), (0.99, _force(0.01)), (0.999, _force(0.001))):
        axes.plot(sizes, [1 / (1 + force * size) for size in sizes], label=f"sparsity {target:g}, F = {force:.2g}")
    for name, size in (("fc3", 1_000), ("fc2", 30_000), ("fc1", 235_200)):
        axes.axvline(size, color="0.7", linewidth=0.8, linestyle=":")
        axes.annotate(name, (size, 1.3), ha="center", color="0.4")
    axes.set(
        xscale="log", yscale="log", ylim=(3e-4, 2), xlabel="weights of the layer, n", ylabel="density 1 / (1 + F n)"
    )
    axes.legend(frameon=False, loc="lower left")
    save_figure(figure, path)


def _force(density: float) -> float:
    """Return the F of the ideal gas quota for LeNet-300-100, from the connections that effsparse would keep."""
    kept = effsparse.quotas(LENET_300, target=1 - density, lsq="igq").kept["igq"]
    connections = 235_200
    return (connections / kept[0] - 1) / connections


def draw_erk(path: Path) -> None:
    figure, axes = build_figure()
    quotas = effsparse.quotas(LENET_5, target=0.9, lsq=["uniform", "erk", "igq"])
    names = [name for name, _, _ in quotas.layers]
    for i, (lsq, kept) in enumerate(quotas.kept.items()):
        densities = [n / weights for n, (_, _, weights) in zip(kept, quotas.layers, strict=True)]
        places = [j + 0.27 * (i - 1) for j in range(len(names))]
        bars = axes.bar(places, densities, width=0.25, label=lsq)
        axes.bar_label(bars, [f"{density:.0%}" for density in densities], fontsize="x-small")
    axes.set_xticks(range(len(names)), [f"{name}\n{weights:,}" for name, _, weights in quotas.layers])
    axes.set(ylabel="share of the layer's weights that is kept", xlabel="layer and its weights")
    axes.legend(frameon=False)
    save_figure(figure, path)


def draw_bottleneck(path: Path) -> None:
    """Draw a small network with scores, and the threshold at which each connection becomes inactive."""
    scores = {
        (0, 0, 0): 9,
        (0, 1, 0): 5,
        (0, 1, 1): 8,
        (0, 2, 1): 2,
        (1, 0, 0): 6,
        (1, 1, 0): 3,
        (1, 1, 1): 4,
        (2, 0, 0): 7,
    }
    scores[2, 1, 0] = 1
    widths = (3, 2, 2, 1)
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for edge, score in scores.items():
        threshold = _bottleneck(edge, scores, widths)
        colour = ACTIVE if threshold == score else INACTIVE
        text = f"{score:g}" if threshold == score else f"{score:g} → {threshold:g}"
        _draw_edge(axes, edge, widths, colour, text)
    _draw_nodes(axes, widths)
    figure.text(
        0.5, 0.02, "score → bottleneck, where they differ: the connection dies before its own turn", ha="center"
    )
    save_figure(figure, path)


def _bottleneck(edge: tuple[int, int, int], scores: Edges, widths: Sequence[int]) -> float:
    layer, source, target = edge

    def best(layer: int, node: int, forward: bool) -> float:
        """Return the best path from this node to an end, judged by its lowest score."""
        if layer == (len(widths) - 1 if forward else 0):
            return float("inf")
        step, end = (layer, 1) if forward else (layer - 1, 2)
        edges = [e for e in scores if e[0] == step and e[end] == node]
        onward = layer + 1 if forward else layer - 1
        return max((min(scores[e], best(onward, e[3 - end], forward)) for e in edges), default=0)

    return min(best(layer, source, False), scores[edge], best(layer + 1, target, True))


def draw_figure1(path: Path) -> None:
    """Draw figure1.pt: pruned, inactive and active connections."""
    module = torch.load(ROOT / "sample_models" / "figure1.pt", weights_only=False)
    masks = effsparse.analyze(module, torch.zeros(1, 3), active_masks=True).active_masks
    assert masks is not None
    widths = (3, 3, 3, 1)
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for layer, (name, active) in enumerate(masks.items()):
        kept = module.get_parameter(f"{name.removesuffix('.weight')}.weight") != 0
        for target in range(widths[layer + 1]):
            for source in range(widths[layer]):
                colour = ACTIVE if active[target, source] else INACTIVE if kept[target, source] else PRUNED
                _draw_edge(axes, (layer, source, target), widths, colour)
    _draw_nodes(axes, widths)
    for colour, label in ((ACTIVE, "active: 5"), (INACTIVE, "kept but inactive: 5"), (PRUNED, "pruned: 11")):
        axes.plot([], [], color=colour, label=label, linewidth=2, linestyle=":" if colour == PRUNED else "-")
    axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, -0.12))
    save_figure(figure, path)


def _place(layer: int, node: int, widths: Sequence[int]) -> tuple[float, float]:
    return 2.0 * layer, (widths[layer] - 1) / 2 - node


def _draw_edge(axes: Any, edge: tuple[int, int, int], widths: Sequence[int], colour: str, text: str = "") -> None:
    layer, source, target = edge
    (x, y), (u, v) = _place(layer, source, widths), _place(layer + 1, target, widths)
    axes.plot(
        [x, u],
        [y, v],
        color=colour,
        linewidth=1 if colour == PRUNED else 2,
        linestyle=":" if colour == PRUNED else "-",
        zorder=1,
    )
    if text:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.annotate(text, (0.7 * x + 0.3 * u, 0.7 * y + 0.3 * v), color=colour, ha="center", va="center", bbox=box)


def _draw_nodes(axes: Any, widths: Sequence[int]) -> None:
    places = [_place(layer, node, widths) for layer, width in enumerate(widths) for node in range(width)]
    axes.scatter(*zip(*places, strict=True), s=220, color="white", edgecolor="0.3", zorder=2)
    axes.annotate("input", (0, max(widths) / 2 + 0.05), ha="center", color="0.4")
    axes.annotate("output", (2 * (len(widths) - 1), max(widths) / 2 + 0.05), ha="center", color="0.4")
    axes.set_axis_off()
    axes.margins(0.08, 0.15)


def draw_pass(path: Path) -> None:
    """Draw how a file becomes a graph, and a graph an answer."""
    boxes = [
        (0, 0.55, "torch file, ONNX file,\nlive module"),
        (1, 0.55, "graph of a few\nprimitives"),
        (2, 0.55, "forward from inputs,\nbackward from outputs,\nmeet at every weight"),
        (3, 1.1, "or, and:\nactive connections"),
        (3, 0.55, "+, *: path norms,\nSynFlow scores"),
        (3, 0.0, "max, min: threshold of\nevery connection"),
    ]
    figure = Figure(figsize=(8.4, 2.6), layout="constrained")
    axes = figure.add_subplot()
    box = {"boxstyle": "round,pad=0.5", "facecolor": "#e0f2f1", "edgecolor": ACTIVE}
    for x, y, text in boxes:
        axes.annotate(text, (x, y), ha="center", va="center", bbox=box, fontsize=9)
    arrow = {"arrowstyle": "->", "color": "0.3"}
    for start, end in [
        ((0.33, 0.55), (0.74, 0.55)),
        ((1.26, 0.55), (1.6, 0.55)),
        *(((2.4, 0.55), (2.62, y)) for y in (1.1, 0.55, 0.0)),
    ]:
        axes.annotate("", end, start, arrowprops=arrow)
    axes.set(xlim=(-0.4, 3.45), ylim=(-0.3, 1.4))
    axes.set_axis_off()
    save_figure(figure, path)


def draw_badge(path: Path) -> None:
    path.write_text(effsparse.analyze(ROOT / "sample_models" / "lenet5.onnx").render("badge"), encoding="utf-8")


PICTURES: Mapping[str, Callable[[Path], None]] = {
    "curve.svg": draw_curve,
    "igq.svg": draw_igq,
    "erk.svg": draw_erk,
    "bottleneck.svg": draw_bottleneck,
    "figure1.svg": draw_figure1,
    "pass.svg": draw_pass,
    "badge.svg": draw_badge,
}


def write(folder: Path) -> None:
    # Text stays text: smaller files, and readable by screen readers.
    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        for name, draw in PICTURES.items():
            draw(folder / name)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
