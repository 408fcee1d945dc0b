"""Match the layers of two models: by name, then by the end of a name, then by shape and order.

Shapes are those that operators use, so that a linear layer that ONNX stores transposed still matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from effsparse_cli.graph.primitives import Shape

Same = Callable[[str, str], bool]


def match_layers(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> dict[str, str]:
    """Map layer names of the first model to those of the second, in the order of the first."""
    matched: dict[str, str] = {}
    for same in (_same_name, _same_end, lambda a, b: before[a] == after[b]):
        left = [name for name in before if name not in matched]
        right = [name for name in after if name not in matched.values()]
        matched |= _pairs(left, right, same, unique=same is _same_end)
    return {name: matched[name] for name in before if name in matched}


def _same_name(before: str, after: str) -> bool:
    return before == after


def _same_end(before: str, after: str) -> bool:
    """Ignore the prefixes that wrappers add: module.fc1, _orig_mod.fc1, model.fc1."""
    return before.endswith(f".{after}") or after.endswith(f".{before}")


def _pairs(left: Sequence[str], right: Sequence[str], same: Same, unique: bool) -> dict[str, str]:
    """Pair each name with the first candidate that is left; if `unique`, only if there is exactly one."""
    pairs: dict[str, str] = {}
    for name in left:
        candidates = [other for other in right if same(name, other) and other not in pairs.values()]
        if len(candidates) == 1 or (candidates and not unique):
            pairs[name] = candidates[0]
    return pairs
