"""Options for ranking connections and for targets, shared by `prune`, `quotas`, `curve` and `repair`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from typer.models import OptionInfo

from effsparse_cli import pruning
from effsparse_cli.api.rankings import WITH_DATA as WITH_DATA
from effsparse_cli.api.rankings import WITHOUT_DATA as WITHOUT_DATA
from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.signature import Command, find_options, replace_parameter
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.pruning import FROM, GLOBAL, SCORES

RANK, TARGET = "Ranking", "Target"
METHODS = tuple(SCORES)
QUOTAS = (GLOBAL, *pruning.QUOTAS)
ROUNDS = ", ".join(f"{score.rounds} for {name}" for name, score in SCORES.items() if score.rounds)


def method_choice(help: str, methods: Iterable[str]) -> OptionInfo:
    return o.choice("--method", help=help, panel=RANK, metavar="METHOD", choices=methods)


def methods_option(help: str, default: str) -> OptionInfo:
    listed = f"{help}: {', '.join(METHODS)}."
    return o.option(
        "--method",
        help=listed,
        panel=RANK,
        metavar="METHOD,...",
        default=default,
        complete=o.complete_list(METHODS),
    )


def lsq_option(help: str, *, metavar: str, default: str) -> OptionInfo:
    quotas = f"{', '.join(QUOTAS)}, or from:METHOD"
    known = (*QUOTAS, *(f"{FROM}{method}" for method in METHODS))
    return o.option(
        "--lsq",
        help=f"{help}: {quotas}.",
        panel=RANK,
        metavar=metavar,
        default=default,
        complete=o.complete_list(known),
    )


def target_option(help: str) -> OptionInfo:
    return o.option("--target", help=help, panel=TARGET, metavar="0.99")


Method = Annotated[str, method_choice("Score to rank connections by, lowest pruned first", METHODS)]
Lsq = Annotated[
    str, lsq_option("Layerwise quota", metavar="QUOTA", default="igq for magnitude and random, else global")
]
Seed = Annotated[int, o.number("--seed", help="Random seed.", panel=RANK, metavar="N", example="0", default=True)]
ErkStrict = Annotated[bool, o.option("--erk-strict", help="Fail if ERK would overfill a layer.", panel=RANK)]
Rounds = Annotated[
    int,
    o.number("--rounds", help="Number of pruning rounds.", panel=RANK, metavar="N", example="100", default=ROUNDS),
]
Target = Annotated[str | None, target_option("Target effective sparsity.")]
Compression = Annotated[
    str | None, o.option("--compression", help="Target as a compression ratio.", panel=TARGET, metavar="100")
]
Closest = Annotated[
    bool, o.option("--closest", help="Accept the closest network if the target is out of reach.", panel=TARGET)
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


@dataclass(frozen=True)
class RankingArguments:
    """Options of all commands that rank connections, as given on the command line."""

    only: Only = None
    exclude: Exclude = None
    rounds: Rounds = 0
    erk_strict: ErkStrict = False
    data: Data = None
    loss: Loss = "cross-entropy"

    def keywords(self) -> dict[str, Any]:
        """Return the arguments for the functions of the library."""
        return {**vars(self), "only": split_names(self.only), "exclude": split_names(self.exclude)}


def with_ranking_arguments(command: Command) -> Command:
    """Replace the parameter `ranking` of a command by these options."""
    return replace_parameter(
        command, "ranking", find_options(RankingArguments), lambda values: RankingArguments(**values)
    )
