"""Plans for ranking connections, from the arguments of the public functions, and the graph with gradients where a
method needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from effsparse_cli.api.models import LiveModel
from effsparse_cli.arguments import choose
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.model_file import ModelFile
from effsparse_cli.progress import step
from effsparse_cli.pruning import GLOBAL, QUOTAS, SCORES

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.pruning.plan import Gradients

WITH_DATA = tuple(name for name, score in SCORES.items() if score.needs_data)
DEFAULT_LOSS = "cross-entropy"
WITHOUT_DATA = tuple(name for name in SCORES if name not in WITH_DATA)


def choose_method(method: str) -> str:
    return choose(method, SCORES, "--method")


def choose_quota(lsq: str) -> str:
    """Return the quota that a user means; an empty text is the default of the method."""
    return choose(lsq, (GLOBAL, *QUOTAS, *(f"from:{method}" for method in SCORES)), "--lsq") if lsq else ""


def check_arguments(
    names: Sequence[str],
    *,
    data: Any = None,
    loss: Any = DEFAULT_LOSS,
    rounds: int = 0,
    seed: int = 0,
    erk_strict: bool = False,
) -> None:
    """Refuse arguments that none of the methods and quotas in `names` uses, and missing data."""
    used = {name.removeprefix("from:") for name in names}
    with_data = [name for name in WITH_DATA if name in used]
    if with_data and data is None:
        raise UsageError(f"{with_data[0]} needs data: give a batch with --data. {', '.join(WITHOUT_DATA)} need none.")
    in_rounds = [name for name, score in SCORES.items() if score.rounds]
    only_data = f"only {', '.join(WITH_DATA)} use data"
    unused = {
        "--data": (data is not None and not with_data, only_data),
        "--loss": (loss != DEFAULT_LOSS and not with_data, only_data),
        "--seed": (seed != 0 and not with_data and "random" not in used, "nothing is drawn at random"),
        "--rounds": (rounds != 0 and not used & {*in_rounds}, f"only {', '.join(in_rounds)} prune in rounds"),
        "--erk-strict": (erk_strict and "erk" not in used, "only the quota erk uses it"),
    }
    for option, (is_unused, reason) in unused.items():
        if is_unused:
            raise UsageError(f"{option} has no effect here: {reason}.")
    if rounds < 0:
        raise UsageError(f"--rounds {rounds}: use 1 or more.")


def read_ranked_graph(
    source: LiveModel | ModelFile, names: Sequence[str], *, data: Any, loss: Any, seed: int = 0
) -> tuple[Graph, Gradients | None]:
    """Return the graph, and gradients if one of the methods and quotas in `names` needs them."""
    needing = [name for name in names if name.removeprefix("from:") in WITH_DATA]
    with step(f"reading {source.name if isinstance(source, LiveModel) else source.path.name}"):
        if not needing:
            return source.graph(), None
        if isinstance(source, LiveModel):
            return source.graph(), _gradients(source.module, source.graph(), data, loss, seed)
        if source.format != "pickled":
            raise UsageError(
                f"{needing[0]} needs gradients, so {source.path} must be a module saved with torch.save. "
                f"{', '.join(WITHOUT_DATA)} need no gradients."
            )
        from effsparse_cli.formats.torch import from_module

        module = source.module()
        graph = from_module(module, (), None, source.options)
        return graph, _gradients(module, graph, data, loss, seed)


def _gradients(module: nn.Module, graph: Graph, data: Any, loss: Any, seed: int) -> Gradients:
    from effsparse_cli.formats.torch.apply_masks import find_tensors
    from effsparse_cli.formats.torch.tracing.trace import stored_tensors
    from effsparse_cli.pruning.batches import find_loss, read_batches
    from effsparse_cli.pruning.gradients import gradients_of

    tensors = find_tensors(stored_tensors(module), graph.layers)
    return gradients_of(module, tensors, read_batches(data), find_loss(loss), seed)
