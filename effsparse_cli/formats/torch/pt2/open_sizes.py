"""Find the open dimensions of an exported program, and the shapes of its inputs for larger sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.torch.pt2.parse import only
from effsparse_cli.formats.torch.pt2.sizes import Sizes, symbols_in
from effsparse_cli.graph.graph import OpenDimensions
from effsparse_cli.graph.primitives import Shape

Axes = Mapping[str, list[Any]]


def find_open_sizes(axes: Axes, sizes: Sizes) -> OpenDimensions | None:
    """`axes` are the sizes of each input, as they are written. A symbol that only ever counts the first axis is a
    batch."""
    batches = _find_batches(axes)
    grows = {symbol: size for symbol, size in sizes.symbols.items() if symbol not in batches}

    def shapes(factor: int) -> Mapping[str, Shape]:
        values = {symbol: size * factor if symbol in grows else size for symbol, size in sizes.symbols.items()}
        for symbol in grows:
            _, limit = sizes.bounds.get(symbol, (None, None))
            if limit is not None and values[symbol] > limit:
                raise UsageError(f"the program accepts sizes up to {limit}, not {values[symbol]}.")
        larger = Sizes(values, sizes.bounds)
        return {name: tuple(larger.size(n) for n in written) for name, written in axes.items()}

    return OpenDimensions(grows, shapes) if grows else None


def _find_batches(axes: Axes) -> set[str]:
    first, others = set[str](), set[str]()
    for written in axes.values():
        for axis, size in enumerate(written):
            kind, value = only(size)
            if kind == "as_expr":
                (first if axis == 0 and len(written) > 1 else others).update(symbols_in(value["expr_str"]))
    return first - others
