"""The public functions for live PyTorch modules: `analyze`, `prune`, `repair`, `compact` and `Analyzer`.

Importing this module loads neither torch nor numpy: each function imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from effsparse_cli.training.analyzer import Analyzer

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.analysis.results import Analysis
    from effsparse_cli.compaction.results import CompactResult
    from effsparse_cli.folding.results import RepairResult
    from effsparse_cli.pruning.plan import PruneResult

__all__ = ["Analyzer", "analyze", "compact", "prune", "repair"]


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
    """Measure the direct and effective sparsity of a live module without changing it.

    `example_input` is a tensor, a tuple of arguments, or a dict of keyword arguments; only its shape and type matter.
    Masks (torch.nn.utils.prune, parametrizations, masks multiplied in forward) are traced back to the module's
    parameters. With `masks`, the result holds one boolean array per weight; with `patterns`, the N:M or block pattern
    of each layer that has one. A module is traced again only if its structure has changed since the last call. In a
    training loop, use `Analyzer`.
    """
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.training.recent import build_graph

    graph = build_graph(model, example_input, LoadOptions(outputs=tuple(outputs), norms_cut=norms_cut))
    return analyze_graph(
        graph, engine=engine, device=device, count_embeddings=count_embeddings, masks=masks, patterns=patterns
    )


def prune(
    model: nn.Module,
    example_input: Any,
    target: float,
    *,
    method: str = "magnitude",
    lsq: str = "",
    seed: int = 0,
    form: str = "prune",
    from_masks: bool = True,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    keep_inactive: bool = False,
    outputs: Sequence[str] = (),
    norms_cut: bool = True,
) -> PruneResult:
    """Prune a live module in place to a target effective sparsity.

    `example_input` is as in `analyze`. `method` is one that needs no data (magnitude, random, lamp, synflow); `lsq`
    is the layerwise quota. With `form="prune"`, weights get masks of torch.nn.utils.prune, which stay in effect during
    further training; with `form="zeros"`, pruned weights are set to zero. Weights pruned before stay pruned unless
    `from_masks` is False.
    """
    from effsparse_cli.errors import UsageError
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.formats.torch.apply_masks import FORMS
    from effsparse_cli.pruning.execute import prune_graph
    from effsparse_cli.pruning.plan import PrunePlan, parse_target
    from effsparse_cli.training.recent import build_graph

    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}: choose one of {', '.join(FORMS)}")
    plan = PrunePlan(
        target=parse_target(str(target), None),
        method=method,
        lsq=lsq,
        seed=seed,
        only=tuple(only),
        exclude=tuple(exclude),
        from_masks=from_masks,
        keep_inactive=keep_inactive,
    )
    model = getattr(model, "_orig_mod", model)
    graph = build_graph(model, example_input, LoadOptions(outputs=tuple(outputs), norms_cut=norms_cut))
    pruned = prune_graph(graph, plan)
    FORMS[form](model, pruned.masks)
    return pruned


def repair(
    model: nn.Module,
    example_input: Any,
    *,
    outputs: Sequence[str] = (),
    count_embeddings: bool = False,
    norms_cut: bool = True,
    add_biases: bool = True,
) -> RepairResult:
    """Remove the inactive connections of a live module in place, without changing what it computes.

    `example_input` is a tensor, a tuple of arguments, or a dict of keyword arguments; its shapes and types matter, and
    so do the values of integers. Constants carried by inactive connections are folded into biases and running means. A
    layer that has neither gets a bias, a new parameter that existing optimizers do not know, unless `add_biases` is
    False. Masks of torch.nn.utils.prune and parametrizations are updated with their weights. The module is run on
    random inputs before and after; if the outputs differ by more than rounding, an error is raised and the module is
    left unchanged.
    """
    from effsparse_cli.folding.torch.execute import repair_module
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.training.recent import split_arguments

    args, kwargs = split_arguments(example_input)
    options = LoadOptions(outputs=tuple(outputs), norms_cut=norms_cut)
    return repair_module(model, args, kwargs, options, count_embeddings, add_biases)


def compact(model: nn.Module, example_input: Any, *, outputs: Sequence[str] = ()) -> tuple[nn.Module, CompactResult]:
    """Return a copy of a live module without its dead channels and neurons, and a summary of what was removed.

    `example_input` is a tensor, a tuple of arguments, or a dict of keyword arguments. Inactive connections are removed
    first, as in `repair`. The module itself is not changed; create a new optimizer for the copy's parameters. Both are
    run on random inputs; outputs that differ by more than rounding raise an error, as does a module whose code contains
    tensor sizes. Requires onnxscript, which torch's ONNX exporter uses.
    """
    from effsparse_cli.compaction.torch.execute import compact_module
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.training.recent import split_arguments

    args, kwargs = split_arguments(example_input)
    return compact_module(getattr(model, "_orig_mod", model), args, kwargs, LoadOptions(outputs=tuple(outputs)))
