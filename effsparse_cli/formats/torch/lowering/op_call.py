"""An op call: one operator of a traced model with its arguments, as a lowering function sees it: with the builder, a
node for any value, the weights in a constant, and the operator itself to be run on other tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._pytree import tree_map

from effsparse_cli.formats.torch.constants.evaluate import run
from effsparse_cli.formats.torch.constants.index_maps import Arrange
from effsparse_cli.formats.torch.operators import Operator, find_operator
from effsparse_cli.formats.torch.tensors import nonzero
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result, Value, constant_value
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Shape

if TYPE_CHECKING:
    from effsparse_cli.formats.torch.lowering.lowerer import Lowerer


@dataclass(frozen=True)
class OpCall:
    """`args` are all arguments in the order of the schema, except `out`: what is written to it is the result.
    `results` has a meta tensor for each result."""

    lowerer: Lowerer
    target: torch._ops.OpOverload
    args: list[Any]
    results: list[Any]

    @property
    def b(self) -> Builder:
        return self.lowerer.b

    @property
    def norms_cut(self) -> bool:
        return self.lowerer.options.norms_cut

    @property
    def name(self) -> str:
        """The operator's name without its overload and the underscore of an in-place form."""
        name: str = self.target.overloadpacket.__name__
        return name if name.startswith("__") else name.removesuffix("_")

    @property
    def operator(self) -> Operator | None:
        return find_operator(self.target)

    @property
    def keeps_zero(self) -> bool:
        return self.operator is not None and self.operator.keeps_zero

    @property
    def shape(self) -> Shape:
        """Shape of the first result."""
        return tuple(self.results[0].shape)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the first result."""
        dtype: torch.dtype = self.results[0].dtype
        return dtype

    # Arguments

    def argument(self, name: str) -> Arg:
        """Return an argument by its name in the schema, None if it has no such argument."""
        names = [argument.name for argument in self.target._schema.arguments]
        return self.args[names.index(name)] if name in names else None

    def values(self) -> list[Value]:
        """Return the tensors among the arguments."""
        return list(_values(self.args))

    def node(self, value: Arg) -> int:
        return self.lowerer.node(value)

    def shape_of(self, value: Arg) -> Shape:
        return tuple(value.tensor.shape) if isinstance(value, ConstantValue) else self.b.shape(self.node(value))

    # Weights

    def is_parameter(self, value: ConstantValue) -> bool:
        """Whether elements of a constant come from a parameter of the model."""
        return any(part.stored in self.lowerer.stored.parameters for part in value.parts)

    def weights(self, value: ConstantValue, arrange: Arrange, op: str, builder: Builder | None = None) -> list[int]:
        """Add one Weight for each stored tensor in a constant, with its elements in the order that `arrange` gives."""
        return self.lowerer.weights(value, arrange, op, builder)

    def not_stored(self, value: ConstantValue) -> ConstantValue | None:
        """Return the elements of a constant that come from no stored tensor, None if there are none."""
        if not value.parts:
            return value
        if any(part.index_map.is_meta for part in value.parts):
            return None
        stored = torch.stack([part.index_map >= 0 for part in value.parts]).any(0)
        rest = ~stored & torch.from_numpy(nonzero(value.tensor))
        return constant_value(rest) if bool(rest.any()) else None

    # Results

    def with_unused(self, y: Arg) -> Result:
        """Return y, and constants for the other results, which are only for training."""
        others = [self.b.constant(True, r.shape) if isinstance(r, torch.Tensor) else None for r in self.results[1:]]
        return [y, *others] if others else y

    def with_index(self, y: int) -> Result:
        """Return y, and the index that the operator found it at, if it returns that."""
        return [y, self.b.join(y, keeps_zero=False)] if len(self.results) > 1 else y

    # Running the operator

    def evaluate(self, pick: Callable[[Value], torch.Tensor]) -> Result:
        """Run the operator with the tensors that `pick` returns instead of its values."""
        args = tree_map(lambda v: pick(v) if isinstance(v, LiveValue | ConstantValue) else v, self.args)
        schema = [a for a in self.target._schema.arguments if not a.is_out]
        named = {a.name: value for a, value in zip(schema, args, strict=True) if a.kwarg_only}
        positional = [value for a, value in zip(schema, args, strict=True) if not a.kwarg_only]
        return run(self.target, positional, named, self.lowerer.budget)

    def substitute(self, *pairs: tuple[Value, torch.Tensor]) -> torch.Tensor:
        """Run the operator with other tensors for some values; the other constants keep their own."""

        def pick(value: Value) -> torch.Tensor:
            for replaced, tensor in pairs:
                if replaced is value:
                    return tensor
            assert isinstance(value, ConstantValue)
            return value.tensor.cpu()

        return cast(torch.Tensor, self.evaluate(pick))

    def from_shapes(self) -> ConstantValue:
        """Return the result of a call to which live values contribute only their shape or type."""

        def blank(value: Value) -> torch.Tensor:
            if isinstance(value, ConstantValue):
                return value.tensor
            # One element for all, so that a large activation takes no memory.
            zero = torch.zeros((), dtype=value.dtype, device=self.lowerer.stored.device)
            return zero.expand(self.b.shape(value.node))

        return constant_value(self.evaluate(blank))


def _values(args: Arg) -> Iterator[Value]:
    if isinstance(args, list | tuple):
        for arg in args:
            yield from _values(arg)
    elif isinstance(args, LiveValue | ConstantValue):
        yield args
