"""Runs a traced model and measures at chosen operators what some connections alone add to the output: random inputs
enter, the spread of each operator's amounts leaves. Also draws the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from effsparse_cli.folding.carriers import Target
from effsparse_cli.folding.torch.homes import channel_axis
from effsparse_cli.folding.torch.operators import Site, Wiring, arguments, bound, operator_of
from effsparse_cli.folding.torch.removable import part_of
from effsparse_cli.folding.uniform import Spread, measure
from effsparse_cli.formats.torch.constants.size_arithmetic import FUNCTIONS, calculate
from effsparse_cli.formats.torch.pt2.operators import UnknownOperator
from effsparse_cli.formats.torch.tracing.preserve import unfused_kernels
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel
from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True, eq=False)
class Watched:
    """An operator, and the connections whose part in its output is asked for, in the shape of the stored weight."""

    site: Site
    carrier: Bools
    target: Target | None


class Runner(fx.Interpreter):
    """Runs a traced model. Unknown operators give random results of the shapes that the trace has; `entered` has what
    they were given. Arithmetic on sizes is bounded, because a file may say anything."""

    def __init__(self, traced: TracedModel) -> None:
        super().__init__(traced.graph.owning_module or fx.GraphModule(nn.Module(), traced.graph), graph=traced.graph)
        self.entered: list[torch.Tensor] = []
        self._node: fx.Node | None = None

    def run_node(self, n: fx.Node) -> Any:
        self._node = n
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, UnknownOperator):
            assert self._node is not None
            self.entered += [leaf.clone() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            return tree_map_only(torch.Tensor, _random, self._node.meta.get("val"))
        if target in FUNCTIONS.values() and all(isinstance(arg, int | float) for arg in args):
            return calculate(target, args)
        return super().call_function(target, args, kwargs)


def _random(like: torch.Tensor) -> torch.Tensor:
    floats = torch.rand(tuple(like.shape))
    return floats.to(like.dtype) if like.is_floating_point() else (2 * floats).to(like.dtype)


def unknown_operators(traced: TracedModel) -> tuple[str, ...]:
    """Operators that cannot be run."""
    return tuple(dict.fromkeys(str(n.target) for n in traced.graph.nodes if isinstance(n.target, UnknownOperator)))


class _Observer(Runner):
    """Looks at an operator's input before it runs: what follows may write over it."""

    def __init__(self, wiring: Wiring, watched: Sequence[Watched]) -> None:
        super().__init__(wiring.traced)
        self.wiring = wiring
        self.watched = {each.site.node: each for each in watched}
        self.found: dict[fx.Node, Spread] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n in self.watched:
            self.found[n] = self._look(self.watched[n], self.map_nodes_to_values(arguments(n), n))
        return super().run_node(n)

    def _look(self, watched: Watched, given: Any) -> Spread:
        site = watched.site
        chosen = part_of(self.wiring, site.leaf, site.weight, torch.from_numpy(watched.carrier)).double()
        args = list(given)
        x, weight = site.contraction.x, site.contraction.weight
        args[x] = args[x].double()
        args[weight] = chosen
        amount = site.run(args)
        args[x], args[weight] = args[x].abs(), chosen.abs()
        magnitude = site.run(args)
        return measure(amount.cpu().numpy(), magnitude.cpu().numpy(), channel_axis(site), watched.target)


def observe(wiring: Wiring, watched: Sequence[Watched], inputs: Sequence[torch.Tensor]) -> dict[fx.Node, Spread]:
    """One run; `inputs` in the order of the traced model's own."""
    observer = _Observer(wiring, watched)
    with torch.no_grad(), unfused_kernels():
        observer.run(*_values(wiring.traced, inputs))
    return observer.found


def run_traced(traced: TracedModel, inputs: Sequence[torch.Tensor]) -> list[Any]:
    """What the traced model gives, flat."""
    return run_apart(traced, inputs)[0]


def run_apart(traced: TracedModel, inputs: Sequence[torch.Tensor]) -> tuple[list[Any], list[torch.Tensor]]:
    """The same, and what entered unknown operators."""
    runner = Runner(traced)
    with torch.no_grad(), unfused_kernels():
        result = runner.run(*_values(traced, inputs))
    return list(result) if isinstance(result, list | tuple) else [result], runner.entered


def _values(traced: TracedModel, inputs: Sequence[torch.Tensor]) -> list[Any]:
    waiting = iter(inputs)
    values: list[Any] = []
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            leaf = traced.leaves[node.name]
            match leaf:
                case Input():
                    values.append(next(waiting).clone())
                case StoredTensor(name):
                    values.append(traced.stored[name].detach())
                case HeldTensor(_, tensor):
                    values.append(tensor.detach())
                case _:
                    values.append(leaf)
    return values


def draw(examples: Sequence[torch.Tensor], limits: Mapping[int, int], seed: int) -> list[torch.Tensor]:
    """Random inputs like the examples: noise, rows of the tables that are looked up in, or values as they occur."""
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
    """By position of the input: how many rows the tables have that it is an index into."""
    inputs = [n for n in traced.graph.nodes if n.op == "placeholder" and isinstance(traced.leaves[n.name], Input)]
    sizes = {}
    for position, node in enumerate(inputs):
        waiting, rows = [node], []
        while waiting:
            given = waiting.pop()
            for user in given.users:
                operator = operator_of(user)
                if operator is None:
                    continue
                if operator.folding in ("moves", "reshapes", "copies") and bound(user, 0) is given:
                    waiting.append(user)
                if operator.lookup is not None and bound(user, operator.lookup.indices) is given:
                    rows.append(int(bound(user, operator.lookup.table).meta["val"].shape[0]))
        if rows:
            sizes[position] = min(rows)
    return sizes
