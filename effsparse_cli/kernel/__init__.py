"""The loops over every bit: in C if the extension could be compiled, else in numpy, with the same results.
`numpy_loops` specifies each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from effsparse_cli.kernel import numpy_loops
from effsparse_cli.kernel.numpy_loops import Meeting, Tally
from effsparse_cli.kernel.structures import Packed

try:
    from effsparse_cli.kernel import compiled

    COMPILED = True
except ImportError:
    COMPILED = False

P = ParamSpec("P")
R = TypeVar("R")


def _choose(loop: Callable[P, R], build: Callable[[Any], R] | None = None) -> Callable[P, R]:
    """Return the loop in C, if there is one. `build` gives its result the names that it has in numpy."""
    if not COMPILED:
        return loop
    in_c: Callable[P, Any] = getattr(compiled, loop.__name__)
    if build is None:
        return in_c

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return build(in_c(*args, **kwargs))

    return run


backward, forward = _choose(numpy_loops.backward), _choose(numpy_loops.forward)
number, transpose = _choose(numpy_loops.number), _choose(numpy_loops.transpose)
pack = _choose(numpy_loops.pack, lambda found: Packed(*found))
tally = _choose(numpy_loops.tally, lambda counts: Tally(**counts))
meet = _choose(numpy_loops.meet, lambda found: Meeting(found[0], found[1], found[2], Tally(**found[3])))
