"""The operators of a traced model that use a stored weight, found by following each stored tensor to where it is used:
a traced model enters, sites by layer leave, each with what can be said of its bias."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

from effsparse_cli.formats.masks.conventions import TORCH_PRUNE
from effsparse_cli.formats.torch.operators import Contraction, Operator, find_operator
from effsparse_cli.formats.torch.stored import Stored
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class Site:
    """One operator that a stored weight enters, behind a chain of nodes that only moves or masks it (`weight`);
    `leaf` is the placeholder of the stored tensor."""

    node: fx.Node
    contraction: Contraction
    leaf: fx.Node
    weight: fx.Node

    @property
    def bias(self) -> fx.Node | None:
        given = bound(self.node, self.contraction.bias) if self.contraction.bias is not None else None
        return given if isinstance(given, fx.Node) else None

    def run(self, args: Sequence[Any]) -> Tensor:
        """Run the operator on other arguments, without its bias."""
        target: Any = self.node.target
        args = list(args)
        if self.contraction.bias is not None:
            optional = "Optional" in str(target._schema.arguments[self.contraction.bias].type)
            args[self.contraction.bias] = None if optional else args[self.contraction.x].new_zeros(())
        positional = sum(not argument.kwarg_only for argument in target._schema.arguments)
        result: Tensor = target(*args[:positional])
        return result


@dataclass(eq=False)
class Wiring:
    """A traced model as a net of uses. `stored` are the model's own tensors, so they are seen as they are."""

    traced: TracedModel
    constant: dict[fx.Node, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.traced.graph.nodes:
            leaf = self.traced.leaves.get(node.name) if node.op == "placeholder" else None
            given = node.all_input_nodes
            self.constant[node] = not isinstance(leaf, Input) and all(self.constant[each] for each in given)

    @cached_property
    def stored(self) -> Stored:
        return Stored(self.traced.stored, set())

    @cached_property
    def leaves(self) -> dict[fx.Node, str]:
        """The stored tensor of each placeholder. What attention reads past a pruning hook is its masked weight."""
        found = {}
        for node in self.traced.graph.nodes:
            leaf = self.traced.leaves.get(node.name) if node.op == "placeholder" else None
            if isinstance(leaf, StoredTensor):
                found[node] = leaf.name
            elif isinstance(leaf, HeldTensor) and TORCH_PRUNE.weight_name(leaf.name) in self.traced.stored:
                found[node] = TORCH_PRUNE.weight_name(leaf.name)
        return found

    def by_name(self, name: str) -> fx.Node | None:
        return next((node for node, stored in self.leaves.items() if stored == name), None)

    def layer_leaves(self, layers: Mapping[str, object]) -> dict[str, list[fx.Node]]:
        """By layer the placeholders of its tensor, tied ones included."""
        found: dict[str, list[fx.Node]] = {}
        for node, name in self.leaves.items():
            label = self.stored.label(self.stored.owners[name][0])
            if label in layers:
                found.setdefault(label, []).append(node)
        return found

    def uses(self, leaf: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
        """Every operator that a stored tensor enters, with the node that enters it: contractions and what an input
        reaches end the way, other arithmetic on constants is followed."""
        waiting, seen = [leaf], {leaf}
        while waiting:
            given = waiting.pop()
            for user in given.users:
                if user.op == "output" or not self.constant[user] or contraction_of(user) is not None:
                    yield user, given
                elif user not in seen:
                    seen.add(user)
                    waiting.append(user)

    def evaluate(self, node: fx.Node, given: Mapping[fx.Node, Tensor]) -> Tensor:
        """A constant node, with other tensors for some placeholders."""
        if node in given:
            return given[node]
        if node.op == "placeholder":
            leaf = self.traced.leaves[node.name]
            return self.traced.stored[leaf.name].detach() if isinstance(leaf, StoredTensor) else leaf.tensor.detach()
        target: Any = node.target
        if node.op != "call_function":
            raise NotImplementedError(f"{node.op} {target}")
        args, kwargs = tree_map(
            lambda arg: self.evaluate(arg, given) if isinstance(arg, fx.Node) else arg, (node.args, dict(node.kwargs))
        )
        with torch.no_grad():
            result: Tensor = target(*args, **kwargs)
        return result


def operator_of(node: fx.Node) -> Operator | None:
    """The row of the operator that a node calls. In-place forms write to an operand and have none here."""
    target = node.target
    return (
        find_operator(target) if isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable else None
    )


def contraction_of(node: fx.Node) -> Contraction | None:
    operator = operator_of(node)
    return operator.contraction if operator is not None else None


def bound(node: fx.Node, position: int) -> Any:
    """An argument by its place in the schema, however it was given."""
    target: Any = node.target
    argument = target._schema.arguments[position]
    if position < len(node.args):
        return node.args[position]
    return node.kwargs.get(argument.name, argument.default_value if argument.has_default_value() else None)


def arguments(node: fx.Node) -> tuple[Any, ...]:
    """All of them, in the order of the schema."""
    target: Any = node.target
    return tuple(bound(node, i) for i in range(len(target._schema.arguments)))


def find_sites(wiring: Wiring, leaf: fx.Node) -> tuple[list[Site], int, bool]:
    """The contractions by a stored tensor, the number of lookups in it, and whether these are all of its uses."""
    sites, lookups, all_found = [], 0, True
    for node, given in wiring.uses(leaf):
        operator = operator_of(node)
        contraction, lookup = (operator.contraction, operator.lookup) if operator is not None else (None, None)
        if contraction is not None and bound(node, contraction.weight) is given and _is_plain(node, contraction):
            sites.append(Site(node, contraction, leaf, given))
        elif lookup is not None and bound(node, lookup.table) is given:
            lookups += 1
        else:
            all_found = False
    return sites, lookups, all_found


def _is_plain(node: fx.Node, contraction: Contraction) -> bool:
    """Whether the weight is a matrix or has a bias, and neither is scaled."""
    weight = bound(node, contraction.weight)
    is_scaled = any(node.kwargs.get(name, 1) != 1 for name in ("beta", "alpha"))
    return not is_scaled and (contraction.bias is not None or len(weight.meta["val"].shape) == 2)
