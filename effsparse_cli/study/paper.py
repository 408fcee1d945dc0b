"""The study file of each figure of the paper (Vysogorets and Kempe, 2023): full size, or small enough for a laptop."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from effsparse_cli.arguments import choose
from effsparse_cli.errors import UsageError

FULL, SMALL = "full", "small"
SCALES = (FULL, SMALL)


@dataclass(frozen=True)
class ModelData:
    """The data that the paper trains a model on, and where `init` expects it. `sides` are the pixels that images are
    scaled and then cropped to, if they are. The others are what `--scale small` takes instead of the paper's numbers:
    examples, epochs, seeds, and for large images their sides, batches and learning rate. `runs` is how often the paper
    repeats them. Models with `dropout` cannot be trained compacted."""

    kind: str
    path: str
    train: int
    epochs: int
    seeds: int = 1
    sides: tuple[int, int] | None = None
    small_sides: tuple[int, int] | None = None
    small_recipe: tuple[str, ...] = ()
    runs: int = 3
    dropout: bool = False


IMAGENET = ModelData(
    "images",
    "data/imagenet",
    200,
    1,
    1,
    sides=(256, 224),
    small_sides=(72, 64),
    small_recipe=("batch = 50", "lr = 0.04"),
    runs=1,
)
DATA = {
    "lenet-300-100": ModelData("mnist", "data/mnist", 20_000, 20, 3),
    "lenet-5": ModelData("cifar10", "data/cifar10", 10_000, 20, 3),
    "vgg16-cifar": ModelData("cifar10", "data/cifar10", 2_000, 5),
    "vgg19-cifar": ModelData("cifar100", "data/cifar100", 2_000, 5),
    "resnet18-tiny": ModelData("images", "data/tiny-imagenet-200", 1_000, 3),
    "resnet50": IMAGENET,
    "mobilenet-v2": replace(IMAGENET, dropout=True),
}
FOUR = ("lenet-300-100", "lenet-5", "vgg19-cifar", "resnet18-tiny")
SIX = (*FOUR, "resnet50", "mobilenet-v2")

RANDOM = '{ method = "random", lsq = "uniform" }'
TRAINED = '{ method = "lamp", when = "trained" }'
GLOBAL_MAGNITUDE = '{ method = "magnitude", lsq = "global", when = "trained" }'
AT_ONCE = ('"snip"', '"grasp"', '"synflow"', '"snip-iterative"', GLOBAL_MAGNITUDE, TRAINED, '"cs"', RANDOM)


@dataclass(frozen=True)
class PaperFigure:
    """`models` are those of the paper, the first one by default. `plots` are the kinds of `effsparse study plot` that
    draw it. `seeds` is their number, by default that of the model. Compressions are direct unless `effective`. Without
    `trains`, networks are pruned and measured only."""

    about: str
    models: Sequence[str]
    methods: Sequence[str]
    plots: Sequence[str]
    seeds: int | None = None
    effective: bool = False
    trains: bool = True


FIGURES = {
    "figure2": PaperFigure(
        "gaps between direct and effective compression, and accuracy against both",
        ("lenet-300-100",),
        ('"synflow"', '"snip"', RANDOM, '"dense"'),
        ("compression", "accuracy"),
    ),
    "figure3": PaperFigure(
        "effective against direct compression",
        SIX,
        AT_ONCE,
        ("compression --seeds 3",),
        seeds=5,
    ),
    "figure4": PaperFigure(
        "accuracy against direct and effective compression",
        SIX,
        (*AT_ONCE, '"dense"'),
        ("accuracy",),
    ),
    "figure5": PaperFigure(
        "methods, and random pruning with their layerwise sparsities",
        ("lenet-300-100", "vgg19-cifar", "resnet18-tiny", "resnet50"),
        (
            '"snip"',
            '"grasp"',
            '"synflow"',
            '{ method = "random", lsq = ["from:snip", "from:grasp", "from:synflow"] }',
            '"dense"',
        ),
        ("original",),
        effective=True,
    ),
    "figure7": PaperFigure(
        "direct compression of every layer",
        ("lenet-5", "vgg16-cifar"),
        ('"synflow"', '{ method = "random", lsq = "igq" }', TRAINED),
        ("layers",),
        seeds=1,
    ),
    "figure8": PaperFigure(
        "random pruning with different quotas",
        SIX,
        ('{ method = "random", lsq = ["uniform", "uniform+", "erk", "igq", "from:synflow"] }', '"synflow"'),
        ("quotas",),
        effective=True,
    ),
    "figure9": PaperFigure(
        "magnitude pruning after training with different quotas",
        SIX,
        (
            '{ method = "magnitude", lsq = ["global", "uniform", "uniform+", "erk", "igq"], when = "trained" }',
            TRAINED,
        ),
        ("quotas",),
        effective=True,
    ),
    "figure10": PaperFigure(
        "effective compression reached by regular and by effective pruning",
        ("resnet18-tiny",),
        tuple(
            f'{{ method = "{method}", effective = {effective}{lsq} }}'
            for effective in ("false", "true")
            for method, lsq in (
                ("snip", ""),
                ("grasp", ""),
                ("synflow", ""),
                ("random", ', lsq = ["uniform", "erk", "igq"]'),
            )
        ),
        ("targets",),
        trains=False,
    ),
    "figure11": PaperFigure(
        "VGG-16: effective against direct compression, and accuracy against both",
        ("vgg16-cifar",),
        (*AT_ONCE, '"dense"'),
        ("compression", "accuracy"),
    ),
}
LEVELS = {
    FULL: (1.5, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000, 3000, 5000, 8000, 12000, 20000),
    SMALL: (3, 10, 30, 100, 200, 400, 1000, 2000),
}


def write_paper_study(
    name: str, *, model: str = "", scale: str = FULL, path: str = "", file: Path | None = None, compact: bool = False
) -> str:
    """Return the study file of a figure, for one of its models. The data is at `path`, as seen from `file`; it
    may be a folder of images, whatever the data set. With `compact`, compacted networks are trained."""
    figure = FIGURES[choose(name, FIGURES, "FIGURE")]
    model = choose(model, DATA, "--model") if model else figure.models[0]
    if model not in figure.models:
        raise UsageError(f"--model {model}: {name} of the paper has {', '.join(figure.models)} only.")
    if compact and not figure.effective:
        exact = ", ".join(each for each, other in FIGURES.items() if other.effective)
        raise UsageError(f"--compact-training: {name} prunes to direct compressions. It is exact for {exact}.")
    data, small, file = DATA[model], scale == SMALL, file or Path(f"{name}.toml")
    if compact and data.dropout:
        raise UsageError(f"--compact-training: {model} has dropout, so training it compacted is not the same.")
    path = path or data.path
    images = data.kind == "images" or Path(file.parent, path, "train").is_dir()
    methods = [each for each in figure.methods if "uniform+" not in each or model != "lenet-300-100"]
    methods += [each.replace('"uniform+", ', "") for each in figure.methods if each not in methods]
    title = name.replace("figure", "Figure ")
    epochs = (
        ["epochs = 0  # networks are pruned and measured only"]
        if not figure.trains
        else [f"epochs = {data.epochs}"]
        if small
        else []
    )
    recipe = [*epochs, *(data.small_recipe if small else [])]
    sides = data.small_sides if small else data.sides
    seeds = figure.seeds or data.runs
    lines = [
        f"# {title} of the paper: {figure.about}.",
        f"# effsparse study run {shlex.quote(str(file))}",
        *(
            f"# effsparse study plot {shlex.quote(str(file.with_suffix('')))} --kind {plot} -o {plot.split()[0]}.svg"
            for plot in figure.plots
        ),
        f"title = {json.dumps(f'{title}: {model}')}",
        f'model = "{model}"',
        f"compressions = [{', '.join(f'{level:g}' for level in LEVELS[scale])}]",
        f"effective = {json.dumps(figure.effective)}",
        f"seeds = {min(seeds, data.seeds) if small else seeds}",
        *(["compact = true"] if compact else []),
        "methods = [",
        *(f"    {method}," for method in methods),
        "]",
        "",
        "[data]",
        f'kind = "{"images" if images else data.kind}"',
        f"path = {json.dumps(path)}",
        *(["channels = 1"] if images and data.kind == "mnist" else []),
        *([f"resize = {sides[0]}", f"size = {sides[1]}"] if sides else []),
        *([f"train = {data.train}"] if small else []),
        *(["", "[recipe]", *recipe] if recipe else []),
    ]
    return "\n".join(lines) + "\n"
