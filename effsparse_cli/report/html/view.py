"""What a page draws, as JSON: the network, and the pictures of its layers, coarse enough for the page to stay small."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effsparse_cli.analysis.network import Network
    from effsparse_cli.analysis.pictures.picture import Counts, Fan, Picture, Positions
    from effsparse_cli.analysis.results import Analysis

PER_LAYER = 24_000
"""Maximum number of base64 characters per layer, on average."""
MOST = 6_000_000
"""Maximum number of base64 characters of all pictures."""
SAMPLE = 1 << 13
"""Number of bytes to choose a compression by."""


def build_view(analysis: Analysis, curve: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the document that the page's script draws from; the analysis was made with `pictures`."""
    return {
        "network": None if analysis.network is None else network_to_json(analysis.network),
        "pictures": encode_pictures(analysis.pictures),
        "curve": curve,
    }


def network_to_json(network: Network) -> dict[str, Any]:
    return {
        "nodes": [{"kind": node.kind, "name": node.name, "module": list(node.module)} for node in network.nodes],
        "edges": [list(edge) for edge in network.edges],
    }


def encode_pictures(
    pictures: Mapping[str, Picture], per_layer: int = PER_LAYER, most: int = MOST
) -> dict[str, dict[str, Any]]:
    """Encode the pictures of a model. The largest are halved until all of them fit."""
    shown = dict(pictures)
    cells = {name: _encode(picture.counts.values()) for name, picture in shown.items()}
    places = {name: _positions_to_json(picture.positions) for name, picture in shown.items()}
    spare = min(per_layer * len(shown), most) - sum(len(place["cells"]) for place in places.values() if place)
    spare -= sum(len(data) for _, data in cells.values())
    largest = [(-len(data), name) for name, (_, data) in cells.items() if max(shown[name].frame.grid) > 1]
    heapify(largest)
    while spare < 0 and largest:
        size, name = heappop(largest)
        shown[name] = shown[name].halve()
        cells[name] = _encode(shown[name].counts.values())
        spare -= size + len(cells[name][1])
        if max(shown[name].frame.grid) > 1:
            heappush(largest, (-len(cells[name][1]), name))
    return {name: _picture_to_json(shown[name], *cells[name], places[name]) for name in shown}


def _picture_to_json(picture: Picture, type: str, cells: str, positions: dict[str, Any] | None) -> dict[str, Any]:
    frame = picture.frame
    return {
        "rows": frame.rows,
        "columns": frame.columns,
        "kernel": list(frame.kernel),
        "cell": list(frame.cell),
        "grid": list(frame.grid),
        "type": type,
        "kinds": list(picture.counts),
        "cells": cells,
        "dead_rows": picture.dead_rows.tolist(),
        "dead_columns": picture.dead_columns.tolist(),
        "outputs": frame.outputs,
        "inputs": frame.inputs,
        "fan_in": _fan_to_json(picture.fan_in),
        "fan_out": _fan_to_json(picture.fan_out),
        "positions": positions,
    }


def _fan_to_json(fan: Fan) -> dict[str, list[int]]:
    return {"edges": fan.edges, "kept": fan.kept.tolist(), "active": fan.active.tolist()}


def _positions_to_json(positions: Positions | None) -> dict[str, Any] | None:
    if positions is None:
        return None
    type, cells = _encode([positions.counts])
    return {
        "height": positions.height,
        "width": positions.width,
        "channels": positions.channels,
        "cell": list(positions.cell),
        "grid": list(positions.counts.shape),
        "type": type,
        "cells": cells,
    }


def _encode(planes: Iterable[Counts]) -> tuple[str, str]:
    """Return the type of the counts, and the counts as base64 of zlib."""
    planes = list(planes)
    largest = max((int(plane.max(initial=0)) for plane in planes), default=0)
    type = "u1" if largest < 1 << 8 else "u2" if largest < 1 << 16 else "u4"
    data = b"".join(plane.astype(f"<{type}", copy=False).tobytes() for plane in planes)
    return type, b64encode(_compress(data)).decode("ascii")


def _compress(data: bytes) -> bytes:
    """Compress counts. They are noise if weights are pruned one by one: runs and frequent numbers then compress better
    than repetitions, in a tenth of the time. A pruned channel is repeated in every row. The first bytes show which."""
    repeats, runs = (6, zlib.Z_DEFAULT_STRATEGY), (1, zlib.Z_RLE)
    ratio = len(_deflate(data[:SAMPLE], *repeats)) / len(_deflate(data[:SAMPLE], *runs))
    return _deflate(data, *(repeats if ratio < 0.8 else runs))


def _deflate(data: bytes, level: int, strategy: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
    return packer.compress(data) + packer.flush()
