"""Compute the sizes in an exported program, which are numbers or arithmetic on symbols, and find the open ones.
Expressions are parsed and evaluated here, because torch would pass them to a function that evaluates Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, trunc
from typing import Any

from effsparse_cli.errors import LoadError, RefusedError, UsageError
from effsparse_cli.formats.torch.pt2.parse import MAX_INT, as_int, as_text, only
from effsparse_cli.graph.graph import OpenDimensions
from effsparse_cli.graph.primitives import Shape

MAX_LENGTH = 4096
MAX_UNKNOWN = 1 << 16
"""A size that depends on data is replaced by its upper bound, up to this limit."""
Number = int | Fraction
Axes = Mapping[str, list[Any]]


class UnknownSizeError(Exception):
    """The expression uses a symbol without a value, or a function that is not known."""


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1 or abs(int(exponent)) > 64:
        raise UnknownSizeError
    return Fraction(base) ** int(exponent)


def _product(*factors: Number) -> Number:
    result: Number = 1
    for factor in factors:
        result = _bounded(result * factor)
    return result


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("Integer", "Identity", "ToFloat"), lambda n: n),
    **dict.fromkeys(("Rational", "IntTrueDiv"), Fraction),
    "Add": lambda *terms: sum(terms, start=Fraction(0)),
    "Mul": _product,
    **dict.fromkeys(("Pow", "PowByNatural"), _power),
    **dict.fromkeys(("FloorDiv", "CleanDiv"), operator.floordiv),
    "CeilDiv": lambda a, b: -(-a // b),
    **dict.fromkeys(("Mod", "PythonMod"), operator.mod),
    "ModularIndexing": lambda a, b, c: a // b % c,
    "Max": max,
    "Min": min,
    "Abs": abs,
    **dict.fromkeys(("floor", "FloorToInt"), floor),
    **dict.fromkeys(("ceiling", "CeilToInt"), ceil),
    "TruncToInt": trunc,
}
KNOWN = {
    *FUNCTIONS, "Symbol", "Float", "Where", "LShift", "RShift", "FloatPow", "FloatTrueDiv", "TruncToFloat",
    "RoundToInt", "RoundDecimal", "IsNonOverlappingAndDenseIndicator", "Equality", "Unequality", "StrictLessThan",
    "LessThan", "StrictGreaterThan", "GreaterThan", "Not", "And", "Or", "Eq", "Ne",
}  # fmt: skip
"""Functions in sizes. For those that are not computed here, the file states the result."""
FORBIDDEN = (ast.Attribute, ast.Subscript, ast.Lambda, ast.comprehension, ast.JoinedStr, ast.Await, ast.NamedExpr)
BINARY_OPERATORS: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.Div: lambda a, b: Fraction(a) / b,
}


def symbol_of(text: str) -> str | None:
    """Return the name of an expression that is a single symbol."""
    tree = _parse(text)
    if isinstance(tree, ast.Name):
        return tree.id
    return _symbol_name(tree) if isinstance(tree, ast.Call) else None


def symbols_in(text: str) -> set[str]:
    """Return the symbols in an expression."""
    found = set[str]()
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Call):
            found |= {name} if (name := _symbol_name(node)) is not None else set()
        elif isinstance(node, ast.Name) and node.id not in KNOWN:
            found.add(node.id)
    return found


def compute(text: str, symbols: dict[str, int]) -> int:
    """Return the value of an expression."""
    result = _value(_parse(text), symbols)
    if result.denominator != 1:
        raise UnknownSizeError
    return int(result)


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise UnknownSizeError
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(text) from None
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [node.id for node in called if isinstance(node, ast.Name)]
    if len(names) < len(called) or not set(names) <= KNOWN or any(isinstance(n, FORBIDDEN) for n in ast.walk(tree)):
        raise _refused(text)
    return tree


def _refused(text: str) -> RefusedError:
    return RefusedError(f"the program has the size {text[:100]!r}, which is not arithmetic. None of its code was run.")


def _value(tree: ast.expr, symbols: dict[str, int]) -> Number:
    match tree:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in symbols:
            return symbols[name]
        case ast.Call(func=ast.Name(id="Symbol")):
            symbol = _symbol_name(tree)
            if symbol is None or symbol not in symbols:
                raise UnknownSizeError
            return symbols[symbol]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return _bounded(_apply(FUNCTIONS[name], [_value(arg, symbols) for arg in args]))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in BINARY_OPERATORS:
            return _bounded(_apply(BINARY_OPERATORS[type(sign)], [_value(left, symbols), _value(right, symbols)]))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, symbols)
    raise UnknownSizeError


def _apply(function: Callable[..., Any], args: list[Number]) -> Number:
    try:
        result: Number = function(*args)
    except (ArithmeticError, TypeError, ValueError):
        raise UnknownSizeError from None
    return result


def _symbol_name(tree: ast.Call) -> str | None:
    match tree:
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]) if name.isidentifier():
            return name
    return None


def _bounded(number: Number) -> Number:
    if abs(Fraction(number)) > MAX_INT or number.denominator > MAX_INT:
        raise UnknownSizeError
    return number


@dataclass
class Sizes:
    """The values of symbols, and the bounds that the program states for them."""

    symbols: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)

    def size(self, written: Any) -> int:
        kind, value = only(written)
        if kind == "as_int":
            return as_int(value)
        if kind != "as_expr":
            raise ValueError(f"{kind} is not a size")
        hint = value.get("hint")
        try:
            return compute(as_text(value["expr_str"]), self.symbols)
        except UnknownSizeError:
            if hint is not None:
                return as_int(only(hint)[1])
        return self._upper_bound(value["expr_str"])

    def _upper_bound(self, text: str) -> int:
        """Return the upper bound of a size that depends on data."""
        symbol = symbol_of(text)
        _, limit = self.bounds.get(symbol or "", (None, None))
        if limit is None or not 0 <= limit <= MAX_UNKNOWN:
            raise LoadError(
                f"the program has a size that depends on the values of its inputs ({text[:60]}), so its graph has no "
                "fixed shapes. Export the model without that part."
            )
        return limit


def find_open_sizes(axes: Axes, sizes: Sizes) -> OpenDimensions | None:
    """`axes` are the sizes of each input, as written. A symbol that only ever counts the first axis is a batch."""
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
