"""Compare two graphs: measure both, match their layers, and compare connections one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.pictures.draw import draw, find_frame, find_groups, pack_rows
from effsparse_cli.analysis.pictures.picture import Picture
from effsparse_cli.analysis.results import Analysis, LayerResult
from effsparse_cli.comparison.results import Comparison, Moves, Pair
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.paths.layouts import Layout, find_layouts


@dataclass(frozen=True, eq=False)
class Side:
    """One model: its graph, its analysis, and the layout of each weight as operators use it."""

    graph: Graph
    analysis: Analysis
    layouts: dict[str, Layout]
    layers: dict[str, LayerResult]

    def masks(self, name: str) -> tuple[Bools, Bools]:
        """Return the kept and active masks of a layer, in the layout that operators use."""
        layout = self.layouts[name]
        return layout.read(self.graph.layers[name].kept()), layout.read(self.analysis.active_masks[name])


def compare(
    before_name: str,
    before: Graph,
    after_name: str,
    after: Graph,
    *,
    count_embeddings: bool,
    pictures: bool = False,
) -> Comparison:
    """Compare two graphs; with `pictures`, draw what becomes of the connections of each layer."""
    old, new = _side(before, count_embeddings), _side(after, count_embeddings)
    matched = match_layers(*({name: side.layouts[name].shape for name in side.layers} for side in (old, new)))
    matched_after = set(matched.values())
    pairs = tuple(Pair(old.layers[a], new.layers[b], _moves(old, a, new, b)) for a, b in matched.items())
    comparable = [(pair.before.name, pair.after.name) for pair in pairs if pair.moves is not None]
    return Comparison(
        before_name=before_name,
        after_name=after_name,
        before=old.analysis,
        after=new.analysis,
        pairs=pairs,
        only_before=tuple(layer for name, layer in old.layers.items() if name not in matched),
        only_after=tuple(layer for name, layer in new.layers.items() if name not in matched_after),
        pictures=_draw_pairs(old, new, comparable) if pictures else {},
    )


def _side(graph: Graph, count_embeddings: bool) -> Side:
    analysis = analyze_graph(graph, count_embeddings=count_embeddings, masks=True)
    return Side(graph, analysis, find_layouts(graph), {layer.name: layer for layer in analysis.layers})


def _moves(old: Side, before: str, new: Side, after: str) -> Moves | None:
    if old.layouts[before].shape != new.layouts[after].shape:
        return None
    (kept_before, active_before), (kept_after, active_after) = old.masks(before), new.masks(after)
    both = kept_before & kept_after
    return Moves(
        gained=int(np.count_nonzero(kept_after & ~kept_before)),
        lost=int(np.count_nonzero(kept_before & ~kept_after)),
        newly_dead=int(np.count_nonzero(both & active_before & ~active_after)),
        revived=int(np.count_nonzero(both & active_after & ~active_before)),
    )


def _draw_pairs(old: Side, new: Side, pairs: Sequence[tuple[str, str]]) -> dict[str, Picture]:
    groups = find_groups(new.graph, new.layouts)
    return {a: _draw(old.layouts[a], old.masks(a), new.masks(b), groups[b]) for a, b in pairs}


def _draw(layout: Layout, before: tuple[Bools, Bools], after: tuple[Bools, Bools], groups: int) -> Picture:
    """Draw a layer in its layout before; neurons are those of the model after."""
    frame = find_frame(layout)
    kept_before, active_before, kept, active = (
        pack_rows(mask if layout.rows else layout.write(mask), frame) for mask in (*before, *after)
    )
    both = kept_before & kept
    words = {
        "same": active_before & active,
        "gained": kept & ~kept_before,
        "revived": both & active & ~active_before,
        "lost": kept_before & ~kept,
        "newly_dead": both & active_before & ~active,
        "inactive": both & ~active_before & ~active,
    }
    return draw(
        frame, {kind: found for kind, found in words.items() if found.any()}, kept=kept, active=active, groups=groups
    )


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
