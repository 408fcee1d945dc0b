"""The function for scripts: a live module is repaired in place, between two rounds of training for example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.folding.results import Repaired


def repair(
    model: nn.Module,
    example_input: Any,
    *,
    outputs: Sequence[str] = (),
    count_embeddings: bool = False,
    norms_cut: bool = True,
    add_biases: bool = True,
) -> Repaired:
    """Removes the inactive connections of a live module, in place, without changing what it computes.

    `example_input` is a tensor, a tuple of arguments, or a dict of keyword arguments; its shape and type matter, and
    the values of its integers. Constants that inactive connections carry go into biases and running means; where a
    layer has neither it gets a bias, a new parameter that an optimizer does not know yet, unless `add_biases` is
    False. A mask of torch.nn.utils.prune or a parametrization is changed with its weight. The module is run on random
    inputs before and after; a difference beyond rounding raises, and the module is as it was.
    """
    from effsparse_cli.folding.torch.execute import repair_module
    from effsparse_cli.formats.options import LoadOptions

    args = () if isinstance(example_input, dict) else example_input
    args = args if isinstance(args, tuple) else (args,)
    kwargs = example_input if isinstance(example_input, dict) else None
    options = LoadOptions(outputs=tuple(outputs), norms_cut=norms_cut)
    return repair_module(model, args, kwargs, options, count_embeddings, add_biases)
