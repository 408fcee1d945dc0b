"""Run modules and traced models on random inputs. Operators that cannot be run return random results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from effsparse_cli.folding.torch.wiring import argument, operator_of
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.inputs import Inputs, example_inputs
from effsparse_cli.formats.torch.pt2.operators import FUNCTIONS, UnknownOperator, calculate
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, preserved_values, quiet, unfused_kernels
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel, output_names


class ModuleCall:
    """A call of a module, which can be repeated on other inputs; `examples` are the tensors among its arguments."""

    def __init__(self, inputs: Inputs) -> None:
        self._flat, self._spec = tree_flatten((inputs.args, dict(inputs.kwargs)))
        self._places = [i for i, value in enumerate(self._flat) if isinstance(value, torch.Tensor)]
        self.examples: list[torch.Tensor] = [self._flat[i] for i in self._places]

    def outputs(self, model: nn.Module, inputs: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """Run the module and return its outputs that are tensors, with their names."""
        flat = list(self._flat)
        for place, tensor in zip(self._places, inputs, strict=True):
            flat[place] = tensor
        args, kwargs = tree_unflatten(flat, self._spec)
        with preserved_state(model), unfused_kernels(), quiet(), preserved_values(model):
            values, spec = tree_flatten(model(*args, **kwargs))
        return named_tensors(output_names(spec), values)


def choose_inputs(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, options: LoadOptions
) -> Inputs:
    """Return the arguments; without any, inputs of the options' shapes or of inferred ones."""
    return Inputs(args, dict(kwargs or {})) if args or kwargs else example_inputs(model, options)


def named_tensors(names: Sequence[str], values: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
    return [(n, v) for n, v in zip(names, values, strict=True) if n and isinstance(v, torch.Tensor)]


class Runner(fx.Interpreter):
    """Runs a traced model. `unknown_inputs` collects the operands of operators that cannot be run. Arithmetic on sizes
    is bounded, because a file may contain anything."""

    def __init__(self, traced: TracedModel) -> None:
        super().__init__(traced.graph.owning_module or fx.GraphModule(nn.Module(), traced.graph), graph=traced.graph)
        self.unknown_inputs: list[torch.Tensor] = []
        self._node: fx.Node | None = None

    def run_node(self, n: fx.Node) -> Any:
        self._node = n
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, UnknownOperator):
            assert self._node is not None
            operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            self.unknown_inputs += [operand.clone() for operand in operands]
            return tree_map_only(torch.Tensor, _random_like, self._node.meta.get("val"))
        if target in FUNCTIONS.values() and all(isinstance(arg, int | float) for arg in args):
            return calculate(target, args)
        return super().call_function(target, args, kwargs)


def _random_like(example: torch.Tensor) -> torch.Tensor:
    floats = torch.rand(tuple(example.shape))
    return floats.to(example.dtype) if example.is_floating_point() else (2 * floats).to(example.dtype)


def unknown_operators(traced: TracedModel) -> tuple[str, ...]:
    """Return the names of operators that cannot be run."""
    return tuple(dict.fromkeys(str(n.target) for n in traced.graph.nodes if isinstance(n.target, UnknownOperator)))


def run_traced(traced: TracedModel, inputs: Sequence[torch.Tensor]) -> tuple[list[Any], list[torch.Tensor]]:
    """Return the results of a traced model, and the operands of operators that cannot be run."""
    runner = Runner(traced)
    with torch.no_grad(), unfused_kernels():
        result = runner.run(*placeholder_values(traced, inputs))
    return list(result) if isinstance(result, list | tuple) else [result], runner.unknown_inputs


def placeholder_values(traced: TracedModel, inputs: Sequence[torch.Tensor]) -> list[Any]:
    """Return a value for each placeholder; `inputs` are those of the model inputs, in order."""
    remaining = iter(inputs)
    values: list[Any] = []
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            leaf = traced.leaves[node.name]
            match leaf:
                case Input():
                    values.append(next(remaining).clone())
                case StoredTensor(name):
                    values.append(traced.stored[name].detach())
                case HeldTensor(_, tensor):
                    values.append(tensor.detach())
                case _:
                    values.append(leaf)
    return values


def input_nodes(traced: TracedModel) -> list[fx.Node]:
    return [n for n in traced.graph.nodes if n.op == "placeholder" and isinstance(traced.leaves[n.name], Input)]


def draw(examples: Sequence[torch.Tensor], limits: Mapping[int, int], seed: int) -> list[torch.Tensor]:
    """Draw random inputs like the examples: noise, row numbers below a limit, or the example's own values."""
    dice = torch.Generator().manual_seed(seed)
    drawn = []
    for position, example in enumerate(examples):
        if example.is_floating_point():
            value = torch.randn(example.shape, generator=dice, dtype=torch.float64)
        elif example.is_complex():
            value = torch.randn(example.shape, generator=dice, dtype=torch.complex128)
        elif position in limits:
            value = torch.randint(0, limits[position], example.shape, generator=dice)
        else:
            value = example
        drawn.append(value.to(dtype=example.dtype, device=example.device))
    return drawn


def table_sizes(traced: TracedModel) -> dict[int, int]:
    """Return, by position of the input, the number of rows of the tables that it is an index into."""
    sizes = {}
    for position, node in enumerate(input_nodes(traced)):
        waiting, rows = [node], []
        while waiting:
            index = waiting.pop()
            for user in index.users:
                operator = operator_of(user)
                if operator is None:
                    continue
                if operator.folding in ("moves", "reshapes", "copies") and argument(user, 0) is index:
                    waiting.append(user)
                if operator.lookup is not None and argument(user, operator.lookup.indices) is index:
                    rows.append(int(argument(user, operator.lookup.table).meta["val"].shape[0]))
        if rows:
            sizes[position] = min(rows)
    return sizes
