"""Options for ranking connections and for targets, shared by `prune`, `quotas`, `curve` and `repair`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from typer.models import OptionInfo

from effsparse_cli import pruning
from effsparse_cli.commands.options import common as o
from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import GLOBAL, SCORES

if TYPE_CHECKING:
    from effsparse_cli.formats import ModelFile
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.pruning.plan import Gradients

RANK, TARGET = "Ranking", "Target"
METHODS = tuple(SCORES)
WITH_DATA = tuple(name for name, score in SCORES.items() if score.needs_data)
WITHOUT_DATA = tuple(name for name in SCORES if name not in WITH_DATA)
QUOTAS = (GLOBAL, *pruning.QUOTAS)
ROUNDS = ", ".join(f"{score.rounds} for {name}" for name, score in SCORES.items() if score.rounds)


def method_choice(help: str, methods: Iterable[str]) -> OptionInfo:
    return o.choice("--method", help=help, panel=RANK, metavar="METHOD", choices=methods)


def lsq_option(help: str, *, metavar: str, default: str) -> OptionInfo:
    quotas = f"{', '.join(QUOTAS)}, or from:METHOD"
    return o.option("--lsq", help=f"{help}: {quotas}.", panel=RANK, metavar=metavar, default=default)


def target_option(help: str) -> OptionInfo:
    return o.option("--target", help=help, panel=TARGET, metavar="0.99")


Method = Annotated[str, method_choice("Score to rank connections by, lowest pruned first", METHODS)]
Lsq = Annotated[
    str, lsq_option("Layerwise quota", metavar="QUOTA", default="igq for magnitude and random, else global")
]
Seed = Annotated[int, o.option("--seed", help="Random seed.", panel=RANK, metavar="N", default=True)]
ErkStrict = Annotated[bool, o.option("--erk-strict", help="Fail if ERK would overfill a layer.", panel=RANK)]
Rounds = Annotated[int, o.option("--rounds", help="Number of pruning rounds.", panel=RANK, metavar="N", default=ROUNDS)]
Target = Annotated[str | None, target_option("Target effective sparsity.")]
Compression = Annotated[
    str | None, o.option("--compression", help="Target as a compression ratio.", panel=TARGET, metavar="100")
]
Data = Annotated[
    str | None,
    o.option(
        "--data",
        help=f"Inputs and targets for {', '.join(WITH_DATA)}: a file, or your own code.",
        panel=RANK,
        metavar="FILE.npz|FILE.pt|MODULE:LOADER",
    ),
]
Loss = Annotated[
    str,
    o.option(
        "--loss",
        help="Loss function: cross-entropy, mse, or your own code.",
        panel=RANK,
        metavar="NAME|MODULE:FUNCTION",
        default=True,
    ),
]
Only = Annotated[
    list[str] | None,
    o.option("--only", help="Change only layers that match (* and ?).", panel=RANK, metavar="PATTERN"),
]
Exclude = Annotated[
    list[str] | None,
    o.option("--exclude", help="Do not change layers that match (* and ?).", panel=RANK, metavar="PATTERN"),
]


def read_graph(
    file: ModelFile, names: Sequence[str], *, data: str | None, loss: str, seed: int = 0
) -> tuple[Graph, Gradients | None]:
    """Return the graph, and gradients if one of the methods and quotas in `names` needs them."""
    with_data = [name for name in names if name.removeprefix("from:") in WITH_DATA]
    if not with_data:
        return file.graph(), None
    if data is None:
        raise UsageError(f"{with_data[0]} needs data: give a batch with --data. {', '.join(WITHOUT_DATA)} need none.")
    if file.format != "pickled":
        raise UsageError(
            f"{with_data[0]} needs gradients, so {file.path} must be a module saved with torch.save. "
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
