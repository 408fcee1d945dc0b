"""One operator of a traced model: what it is, its arguments bound to its schema, and what it gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils._pytree import tree_flatten, tree_map

from effsparse_cli.formats.torch.constants.budget import Budget
from effsparse_cli.formats.torch.constants.evaluate import run
from effsparse_cli.formats.torch.operators import find
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered, Value
from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True)
class Call:
    """`args` has every argument of the schema in order, `results` a tensor without memory for each result."""

    target: torch._ops.OpOverload
    args: list[Any]
    results: list[Any]
    budget: Budget

    @property
    def name(self) -> str:
        """The operator's name without overload and without the mark of an in-place form."""
        name: str = self.target.overloadpacket.__name__
        return name if name.startswith("__") else name.removesuffix("_")

    @property
    def keeps_zero(self) -> bool:
        operator = find(self.target)
        return operator is not None and operator.keeps_zero

    @property
    def shape(self) -> Shape:
        return tuple(self.results[0].shape)

    def values(self) -> list[Value]:
        return list(_values(self.args))

    def evaluate(self, pick: Callable[[Value], torch.Tensor]) -> Lowered:
        """Run the operator with other tensors in the place of its own."""
        args = tree_map(lambda v: pick(v) if isinstance(v, Live | Const) else v, self.args)
        schema = [a for a in self.target._schema.arguments if not a.is_out]
        named = {a.name: value for a, value in zip(schema, args, strict=True) if a.kwarg_only}
        plain = [value for a, value in zip(schema, args, strict=True) if not a.kwarg_only]
        return run(self.target, plain, named, self.budget)

    def substitute(self, *pairs: tuple[Value, torch.Tensor]) -> torch.Tensor:
        """Run the operator with other tensors for some values; constants that are not named keep their own."""

        def pick(value: Value) -> torch.Tensor:
            for given, tensor in pairs:
                if given is value:
                    return tensor
            assert isinstance(value, Const)
            return value.tensor.cpu()

        return cast(torch.Tensor, self.evaluate(pick))


def _values(args: Arg) -> Iterator[Value]:
    if isinstance(args, list | tuple):
        for arg in args:
            yield from _values(arg)
    elif isinstance(args, Live | Const):
        yield args


def bind(
    target: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], results: Arg, budget: Budget
) -> Call:
    """An `out` argument is left out: what is written to it is the result."""
    bound = []
    for i, argument in enumerate(target._schema.arguments):
        if not argument.is_out:
            default = argument.default_value if argument.has_default_value() else None
            bound.append(args[i] if i < len(args) else kwargs.get(argument.name, default))
    return Call(target, bound, [] if results is None else tree_flatten(results)[0], budget)
