"""A call of a module, which can be repeated on other inputs of the same shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.inputs import example_inputs
from effsparse_cli.formats.torch.tracing.outputs import output_names, select_outputs
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, preserved_values, quiet, unfused_kernels


class ModuleCall:
    """The arguments of a call; without any, the options' input shapes or inferred ones are used. `selected` are the
    positions of the selected outputs among all outputs that are tensors."""

    def __init__(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, options: LoadOptions
    ) -> None:
        named, self.notes = dict(kwargs or {}), tuple[str, ...]()
        if not args and not named:
            inputs = example_inputs(model, options)
            args, named, self.notes = inputs.args, dict(inputs.kwargs), inputs.notes
        self.args, self.kwargs = args, named
        self._flat, self._spec = tree_flatten((args, named))
        self._inputs = [i for i, value in enumerate(self._flat) if isinstance(value, torch.Tensor)]
        self.selected = [position for position, _ in self._select(model, options.outputs)]

    @property
    def examples(self) -> list[torch.Tensor]:
        return [self._flat[i] for i in self._inputs]

    def run(self, model: nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the selected outputs."""
        outputs = [value for _, value in self._outputs(model, inputs)]
        return [outputs[i] for i in self.selected]

    def _select(self, model: nn.Module, wanted: Sequence[str]) -> list[tuple[int, str]]:
        try:
            outputs = self._outputs(model, self.examples)
        except Exception as error:
            shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in self.examples)
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            message = f"the model does not run on input {shapes}: {reason[:300]}. Check --input-shape."
            raise UsageError(message) from error
        named = [(name, (i, name)) for i, (name, _) in enumerate(outputs)]
        return [position for _, position in select_outputs(named, wanted)]

    def _outputs(self, model: nn.Module, inputs: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        flat = list(self._flat)
        for position, tensor in zip(self._inputs, inputs, strict=True):
            flat[position] = tensor
        args, kwargs = tree_unflatten(flat, self._spec)
        with preserved_state(model), unfused_kernels(), quiet(), preserved_values(model):
            values, spec = tree_flatten(model(*args, **kwargs))
        return [(n, v) for n, v in zip(output_names(spec), values, strict=True) if n and isinstance(v, torch.Tensor)]
