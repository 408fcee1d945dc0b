"""effsparse: the effective sparsity of pruned neural networks, measured and brought about.

from effsparse_cli import analyze
analysis = analyze(model, example_input)
print(analysis.totals.effective_sparsity)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from effsparse_cli.compaction.api import compact
from effsparse_cli.folding.api import repair
from effsparse_cli.training.pruning import prune

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.analysis.results import Analysis
    from effsparse_cli.training.analyzer import Analyzer

__version__ = "0.1.0"
__all__ = ["Analyzer", "__version__", "analyze", "compact", "prune", "repair"]


def analyze(
    model: nn.Module,
    example_input: Any,
    *,
    outputs: Sequence[str] = (),
    engine: str = "bits",
    device: str = "cpu",
    count_embeddings: bool = False,
    norms_cut: bool = True,
    masks: bool = False,
    patterns: bool = False,
) -> Analysis:
    """Direct and effective sparsity of a live module, which is left as it was.

    `example_input` is a tensor, a tuple of arguments, or a dict of keyword arguments; only its shape and
    type matter. Masks (torch.nn.utils.prune, parametrizations, masks multiplied in forward) are followed
    to the module's own parameters. With `masks` the result holds one boolean array per weight, with `patterns` the
    N:M or block pattern of each layer that has one. A module that is analysed again is not traced again unless it is
    built differently; `Analyzer` is the object for a training loop.
    """
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.training.recent import graph_of

    graph = graph_of(model, example_input, LoadOptions(outputs=tuple(outputs), norms_cut=norms_cut))
    return analyze_graph(
        graph, engine=engine, device=device, count_embeddings=count_embeddings, masks=masks, patterns=patterns
    )


def __getattr__(name: str) -> Any:
    """`Analyzer` is read when it is asked for: it imports torch."""
    if name != "Analyzer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from effsparse_cli.training.analyzer import Analyzer

    return Analyzer
