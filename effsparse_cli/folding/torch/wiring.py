"""Find the operators of a traced model that use a stored weight, by following each stored tensor to its uses."""

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
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class WeightUse:
    """One use of a stored weight by a contraction. `leaf` is the placeholder of the stored tensor, `weight` the node
    that the operator reads, after a chain of nodes that only moves or masks it."""

    node: fx.Node
    contraction: Contraction
    leaf: fx.Node
    weight: fx.Node

    @property
    def bias(self) -> fx.Node | None:
        bias = argument(self.node, self.contraction.bias) if self.contraction.bias is not None else None
        return bias if isinstance(bias, fx.Node) else None

    @property
    def channel_axis(self) -> int:
        """Axis of the channels in the output, counted from the end."""
        return 1 - len(self.weight.meta["val"].shape) if self.contraction.spatial else -1

    @property
    def channels(self) -> int:
        shape: torch.Size = self.node.meta["val"].shape
        return int(shape[self.channel_axis])

    def run_without_bias(self, args: Sequence[Any]) -> Tensor:
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
    """How the nodes of a traced model use its stored tensors; no model input reaches a node that is `constant`."""

    traced: TracedModel
    constant: dict[fx.Node, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.traced.graph.nodes:
            leaf = self.traced.leaves.get(node.name) if node.op == "placeholder" else None
            operands = node.all_input_nodes
            self.constant[node] = not isinstance(leaf, Input) and all(self.constant[each] for each in operands)

    @cached_property
    def stored(self) -> StoredTensors:
        return StoredTensors(self.traced.stored, set())

    @cached_property
    def leaves(self) -> dict[fx.Node, str]:
        """The stored tensor of each placeholder. Attention reads its output projection without the pruning hook: what
        it gets is the masked weight."""
        names = {}
        for node in self.traced.graph.nodes:
            leaf = self.traced.leaves.get(node.name) if node.op == "placeholder" else None
            if isinstance(leaf, StoredTensor):
                names[node] = leaf.name
            elif isinstance(leaf, HeldTensor) and TORCH_PRUNE.weight_name(leaf.name) in self.traced.stored:
                names[node] = TORCH_PRUNE.weight_name(leaf.name)
        return names

    @cached_property
    def layer_leaves(self) -> dict[str, list[fx.Node]]:
        """The placeholders of each layer's tensor, tied ones included."""
        leaves: dict[str, list[fx.Node]] = {}
        for node, name in self.leaves.items():
            leaves.setdefault(self.stored.label(self.stored.owners[name][0]), []).append(node)
        return leaves

    def uses(self, leaf: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
        """Yield every use of a stored tensor: the operator and the node that it reads. Arithmetic on constants is
        followed up to contractions and nodes that an input reaches."""
        waiting, seen = [leaf], {leaf}
        while waiting:
            read = waiting.pop()
            for user in read.users:
                if user.op == "output" or not self.constant[user] or _contraction_of(user) is not None:
                    yield user, read
                elif user not in seen:
                    seen.add(user)
                    waiting.append(user)

    def only_used_by(self, leaf: fx.Node, nodes: Sequence[fx.Node]) -> bool:
        """Whether a stored tensor is used by no other operators, under any of its names."""
        owner = self.stored.owners[self.leaves[leaf]][0]
        tied = [node for node, name in self.leaves.items() if self.stored.owners[name][0] == owner]
        return all(user in nodes for node in tied for user, _ in self.uses(node))

    def evaluate(self, node: fx.Node, replaced: Mapping[fx.Node, Tensor]) -> Tensor:
        """Evaluate a constant node, with other tensors for some placeholders."""
        if node in replaced:
            return replaced[node]
        if node.op == "placeholder":
            leaf = self.traced.leaves[node.name]
            return self.traced.stored[leaf.name].detach() if isinstance(leaf, StoredTensor) else leaf.tensor.detach()
        target: Any = node.target
        if node.op != "call_function":
            raise NotImplementedError(f"{node.op} {target}")
        args, kwargs = tree_map(
            lambda arg: self.evaluate(arg, replaced) if isinstance(arg, fx.Node) else arg,
            (node.args, dict(node.kwargs)),
        )
        with torch.no_grad():
            result: Tensor = target(*args, **kwargs)
        return result


def operator_of(node: fx.Node) -> Operator | None:
    """Return the operator that a node calls, None for in-place forms, which write to an operand."""
    target = node.target
    known = isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable
    return find_operator(target) if known else None


def _contraction_of(node: fx.Node) -> Contraction | None:
    operator = operator_of(node)
    return operator.contraction if operator is not None else None


def argument(node: fx.Node, position: int) -> Any:
    """Return an argument by its position in the schema, whether it was passed by position or by name."""
    target: Any = node.target
    schema = target._schema.arguments[position]
    if position < len(node.args):
        return node.args[position]
    return node.kwargs.get(schema.name, schema.default_value if schema.has_default_value() else None)


def arguments(node: fx.Node) -> tuple[Any, ...]:
    """Return all arguments in the order of the schema."""
    target: Any = node.target
    return tuple(argument(node, i) for i in range(len(target._schema.arguments)))


def find_weight_uses(wiring: Wiring, leaf: fx.Node) -> tuple[list[WeightUse], int, bool]:
    """Return the contractions by a stored tensor, the number of lookups in it, and whether it has no other uses."""
    uses, lookups, complete = [], 0, True
    for node, read in wiring.uses(leaf):
        operator = operator_of(node)
        contraction, lookup = (operator.contraction, operator.lookup) if operator is not None else (None, None)
        if contraction is not None and argument(node, contraction.weight) is read and _can_fold(node, contraction):
            uses.append(WeightUse(node, contraction, leaf, read))
        elif lookup is not None and argument(node, lookup.table) is read:
            lookups += 1
        else:
            complete = False
    return uses, lookups, complete


def _can_fold(node: fx.Node, contraction: Contraction) -> bool:
    """Whether the product is not scaled, and the weight is a matrix if the operator takes no bias."""
    weight = argument(node, contraction.weight)
    is_scaled = any(node.kwargs.get(name, 1) != 1 for name in ("beta", "alpha"))
    return not is_scaled and (contraction.bias is not None or len(weight.meta["val"].shape) == 2)
