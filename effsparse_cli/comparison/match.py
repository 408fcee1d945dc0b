"""Which layer of one model is which of another: by name, then by the end of a name, then by shape and order.

Shapes are those in which operators use a weight, so that a linear layer that ONNX stores transposed still matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from effsparse_cli.graph.primitives import Shape

Same = Callable[[str, str], bool]


def match_layers(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> dict[str, str]:
    """Names of the first model to names of the second, in the first's order."""
    found: dict[str, str] = {}
    for same in (_same_name, _same_end, lambda a, b: before[a] == after[b]):
        left = [name for name in before if name not in found]
        right = [name for name in after if name not in found.values()]
        found |= _pairs(left, right, same, unique=same is _same_end)
    return {name: found[name] for name in before if name in found}


def _same_name(before: str, after: str) -> bool:
    return before == after


def _same_end(before: str, after: str) -> bool:
    """Wrappers put a prefix before every name: module.fc1, _orig_mod.fc1, model.fc1."""
    return before.endswith(f".{after}") or after.endswith(f".{before}")


def _pairs(left: Sequence[str], right: Sequence[str], same: Same, unique: bool) -> dict[str, str]:
    """The first that fits, each once. Where a match must be unique, several that fit are none."""
    found: dict[str, str] = {}
    for name in left:
        fits = [other for other in right if same(name, other) and other not in found.values()]
        if len(fits) == 1 or (fits and not unique):
            found[name] = fits[0]
    return found
