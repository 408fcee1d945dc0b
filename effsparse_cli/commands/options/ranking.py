"""Options that prune, quotas and curve share: how connections are ranked, and how far to go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from effsparse_cli import pruning
from effsparse_cli.commands.options import common as o
from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import GLOBAL, SCORES

if TYPE_CHECKING:
    from effsparse_cli.formats import ModelFile
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.pruning.plan import Gradients

RANK, TARGET = "How connections are ranked", "How far to prune"
METHODS = tuple(SCORES)
WITH_DATA = tuple(name for name, score in SCORES.items() if score.needs_data)
WITHOUT_DATA = tuple(name for name in SCORES if name not in WITH_DATA)
QUOTAS = (GLOBAL, *pruning.QUOTAS)
ROUNDS = ", ".join(f"{score.rounds} for {name}" for name, score in SCORES.items() if score.rounds)

Model = Annotated[
    Path | None,
    typer.Argument(help="The model's file; the project's, if it names one.", metavar="MODEL", show_default=False),
]
Method = Annotated[
    str, o.choice("--method", help="What is low goes first", panel=RANK, metavar="METHOD", choices=METHODS)
]
Lsq = Annotated[
    str,
    o.option(
        "--lsq",
        help=f"Layerwise quota: {', '.join(QUOTAS)}, or from:METHOD. By default igq for magnitude and random, global "
        "for scores that compare layers.",
        panel=RANK,
        metavar="QUOTA",
    ),
]
Seed = Annotated[int, o.option("--seed", help="Of --method random.", panel=RANK, metavar="N")]
ErkStrict = Annotated[
    bool, o.option("--erk-strict", help="Refuse sparsities at which ERK would overfill a layer.", panel=RANK)
]
Rounds = Annotated[
    int,
    o.option("--rounds", help=f"Number of pruning rounds [default: {ROUNDS}].", panel=RANK, metavar="N"),
]
Target = Annotated[str | None, o.option("--target", help="Sparsity to reach, effective.", panel=TARGET, metavar="0.99")]
Compression = Annotated[
    str | None, o.option("--compression", help="The same as a compression.", panel=TARGET, metavar="100")
]
Data = Annotated[
    str | None,
    o.option(
        "--data",
        help=f"Inputs and targets, for {', '.join(WITH_DATA)}; package.module:loader is your own code.",
        panel=RANK,
        metavar="FILE.npz|FILE.pt|MODULE:LOADER",
    ),
]
Loss = Annotated[
    str,
    o.option(
        "--loss",
        help="cross-entropy (the default), mse, or package.module:function.",
        panel=RANK,
        metavar="LOSS",
    ),
]
Only = Annotated[
    list[str] | None,
    o.option("--only", help="Prune only layers with such names (* and ?).", panel=RANK, metavar="PATTERN"),
]
Exclude = Annotated[
    list[str] | None,
    o.option("--exclude", help="Leave out layers with such names (* and ?).", panel=RANK, metavar="PATTERN"),
]


def read_graph(
    file: ModelFile, asked: Sequence[str], *, data: str | None, loss: str, seed: int = 0
) -> tuple[Graph, Gradients | None]:
    """Return the graph, and gradients if one of the methods and quotas in `asked` needs them."""
    needy = [name for name in asked if name.removeprefix("from:") in WITH_DATA]
    if not needy:
        return file.graph(), None
    if data is None:
        raise UsageError(f"{needy[0]} needs data: give a batch with --data. {', '.join(WITHOUT_DATA)} need none.")
    if file.format != "pickled":
        raise UsageError(
            f"{needy[0]} needs gradients, so a module of torch.save, and {file.path} is none. "
            f"{', '.join(WITHOUT_DATA)} need no gradients."
        )
    from effsparse_cli.formats.torch import from_module
    from effsparse_cli.formats.torch.apply_masks import find_tensors
    from effsparse_cli.formats.torch.tracing.trace import stored_tensors
    from effsparse_cli.pruning.batches import find_loss, read_batches
    from effsparse_cli.pruning.gradients import gradients_of

    batches, criterion = read_batches(data), find_loss(loss)
    module = file.module()
    graph = from_module(module, (), None, file.options)
    tensors = find_tensors(stored_tensors(module), graph.layers)
    return graph, gradients_of(module, tensors, batches, criterion, seed)
