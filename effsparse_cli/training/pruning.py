"""The function for scripts: a live module is pruned in place to a target effective sparsity."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.pruning.plan import Pruned


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
) -> Pruned:
    """Prunes a live module to an effective sparsity, in place, and says what came of it.

    `example_input` is as in `analyze`; `method` one that needs no data (magnitude, random, lamp, synflow), within the
    layerwise quota `lsq`. With `form` "prune" the weights get masks of torch.nn.utils.prune, which hold while training
    goes on; with "zeros" they are set to zero. What was pruned before stays pruned unless `from_masks` is False.
    """
    from effsparse_cli.errors import UsageError
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.formats.saving.torch import FORMS
    from effsparse_cli.pruning.execute import prune_graph
    from effsparse_cli.pruning.plan import Plan, parse_target
    from effsparse_cli.training.recent import graph_of

    if form not in FORMS:
        raise UsageError(f"there is no form {form!r}: choose one of {', '.join(FORMS)}")
    sparsity: Fraction = parse_target(str(target), None)
    plan = Plan(
        sparsity,
        method,
        lsq,
        seed=seed,
        only=tuple(only),
        exclude=tuple(exclude),
        from_masks=from_masks,
        keep_inactive=keep_inactive,
    )
    model = getattr(model, "_orig_mod", model)
    graph = graph_of(model, example_input, LoadOptions(outputs=tuple(outputs), norms_cut=norms_cut))
    pruned = prune_graph(graph, plan)
    FORMS[form](model, pruned.masks)
    return pruned
