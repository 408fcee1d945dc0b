"""The few loops that touch every bit: in C where that could be compiled, or else in numpy, with the same results.
`plain` says what each of them does. In C there is more: whole passes, see `compiled.pyi`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.kernel.plain import backward, forward, meet, number, scan, tally, transpose

    COMPILED: bool = True
else:
    try:
        from effsparse_cli.kernel.compiled import backward, forward, meet, number, scan, tally, transpose

        COMPILED = True
    except ImportError:
        from effsparse_cli.kernel.plain import backward, forward, meet, number, scan, tally, transpose

        COMPILED = False

__all__ = ["COMPILED", "backward", "forward", "meet", "number", "scan", "tally", "transpose"]
