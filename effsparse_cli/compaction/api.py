"""The function for scripts: a live module in, a smaller one that computes the same out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.compaction.results import Compaction


def compact(model: nn.Module, example_input: Any, *, outputs: Sequence[str] = ()) -> tuple[nn.Module, Compaction]:
    """A copy of the module without the channels and neurons that nothing uses, and what that brought.

    `example_input` is a tensor, a tuple of arguments, or a dict of keyword arguments. Inactive connections are removed
    first, as `repair` does. The module itself is left as it was; an optimizer needs the copy's parameters. Both are
    run on random inputs, and a difference beyond rounding raises, as does a module whose code has the sizes of its
    tensors in it. torch's exporter to ONNX, which shows how tensors hang together, needs onnxscript.
    """
    from effsparse_cli.compaction.torch.execute import compact_module
    from effsparse_cli.formats.options import LoadOptions

    args = () if isinstance(example_input, dict) else example_input
    args = args if isinstance(args, tuple) else (args,)
    kwargs = example_input if isinstance(example_input, dict) else None
    return compact_module(getattr(model, "_orig_mod", model), args, kwargs, LoadOptions(outputs=tuple(outputs)))
