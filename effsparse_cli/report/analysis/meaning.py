"""Sentences that explain an analysis, and the assumptions behind it.

Every sentence is literally true: counts are exact, rounded fractions say "about", and bias carriers are never said to
do nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions, dims, is_compressed, percents, plural, thousands

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts


def meaning(analysis: Analysis) -> list[str]:
    """Return sentences about the whole model: sparsity, padding, connectivity, bias carriers."""
    totals = analysis.totals
    if not totals.kept:
        first = "Every connection is pruned."
    elif analysis.refilled:
        first = _refilled(totals, certain=not analysis.unknown)
    elif totals.inactive:
        first = _some_inactive(totals, certain=not analysis.unknown)
    else:
        first = _all_active(totals, certain=not analysis.unknown)
    return [s for s in (first, _padding(totals), _connectivity(analysis, totals), _carriers(totals)) if s]


def _all_active(totals: Counts, certain: bool) -> str:
    pruned = totals.kept < totals.connections
    if not certain:
        return "No kept connection is known to be inactive, but the unknown operators may hide some."
    if not pruned:
        return "Nothing is pruned, and every connection is active."
    if not is_compressed(totals.kept, totals.connections):
        gone = totals.connections - totals.kept
        return f"Every kept connection is active, and {thousands(gone)} {'is' if gone == 1 else 'are'} pruned."
    (ratio,) = compressions([totals.kept], totals.connections, "")
    return f"Every kept connection is active: this network is compressed {ratio}, as its zeros suggest."


def _refilled(totals: Counts, certain: bool) -> str:
    """Describe a model whose stored zeros are not what it computes with; its compression is not stated."""
    zeros = "stored zeros in some layers prune nothing, because the weights are mixed before use."
    if not totals.inactive:
        return f"{'Every kept connection is' if certain else 'All kept connections may be'} active, but {zeros}"
    return f"{_share(totals.inactive, totals.kept, certain, 'do nothing')}, and {zeros}"


def _some_inactive(totals: Counts, certain: bool) -> str:
    share = _share(totals.inactive, totals.kept, certain, "carry no signal" if totals.bias_carriers else "do nothing")
    if totals.kept == totals.connections:
        return f"Nothing is pruned, yet {share[0].lower()}{share[1:]}."
    if not totals.active or not is_compressed(totals.active, totals.connections):
        return f"{share}."
    direct, effective = compressions([totals.kept, totals.active], totals.connections, "")
    return f"{share}: this network is compressed {'' if certain else 'at least '}{effective}, not {direct}."


def _share(inactive: int, kept: int, certain: bool, do: str) -> str:
    """Say how many kept connections are inactive: a rounded fraction, then the exact numbers."""
    exact = f"{thousands(inactive)} of {thousands(kept)}"
    tenths = round(10 * inactive / kept)
    if inactive == kept:
        return (
            f"None of the {thousands(kept)} kept connections is active"
            if kept > 1
            else "The one kept connection is inactive"
        )
    if not certain or 20 * inactive < kept:
        (percent,) = percents([inactive], kept)
        start = "" if certain else "At least "
        return f"{start}{exact} kept connections ({percent}) {do if inactive > 1 else _singular(do)}"
    if 20 * inactive >= 19 * kept:
        return f"Nearly all kept connections {do} ({exact})"
    share = "half of the" if tenths == 5 else f"{tenths} of 10"
    share = share.capitalize() if 10 * inactive == tenths * kept else f"About {share}"
    return f"{share} kept connections {do if tenths > 1 else _singular(do)} ({exact})"


def _singular(do: str) -> str:
    verb, rest = do.split(" ", 1)
    return f"{ {'do': 'does', 'carry': 'carries'}[verb] } {rest}"


def _connectivity(analysis: Analysis, totals: Counts) -> str:
    if analysis.disconnected:
        layer = "layer " if any(x.name == analysis.cut for x in analysis.layers) else ""
        where = f" It is cut at {layer}{analysis.cut}." if analysis.cut else ""
        return f"The network is disconnected: no path leads from input to output.{where}"
    if not totals.active:
        return "The input still reaches the output, on a path without connections (a shortcut)."
    narrowest = next((x for x in analysis.layers if x.name == analysis.narrowest), None)
    if narrowest is None or totals.kept == totals.connections:
        return ""
    active = narrowest.counts.active
    its = f"its {thousands(active)} active connections" if active > 1 else "its one active connection"
    return f"The narrowest layer is {narrowest.name}: removing {its} would disconnect the network."


def _carriers(totals: Counts) -> str:
    n = totals.bias_carriers
    if not n:
        return ""
    start = "One inactive connection is a bias carrier: it only passes"
    if n > 1:
        start = f"{thousands(n)} inactive connections are bias carriers: they only pass"
    them = "it" if n == 1 else "them"
    return (
        f"{start} on a constant, but removing {them} changes the output unless the constant is "
        "folded into the next bias."
    )


def _padding(totals: Counts) -> str:
    if not totals.padding:
        return ""
    one = totals.padding == 1
    who = ("It" if one else "They") if totals.padding == totals.inactive else f"{thousands(totals.padding)} of them"
    return (
        f"{who} only {'multiplies padding or feeds' if one else 'multiply padding or feed'} positions that are "
        "discarded at this input size; a larger input may change that."
    )


def reasons(totals: Counts) -> list[str]:
    """Say why connections are inactive, for tables too narrow for these columns. Padding has its own sentence."""
    counts = {"no-output": totals.no_output, "no-input": totals.no_input, "both": totals.both}
    counts["padding"] = totals.padding
    parts = ", ".join(f"{name} {thousands(number)}" for name, number in counts.items() if number)
    return [f"Dead because: {parts}."] if totals.inactive > totals.padding else []


def dead_neurons(analysis: Analysis) -> list[str]:
    dead, neurons = (sum(getattr(x, of) for x in analysis.layers) for of in ("dead_neurons", "neurons"))
    return [f"Dead neurons: {thousands(dead)} of {thousands(neurons)}."] if dead else []


def patterns(analysis: Analysis) -> list[str]:
    counts = Counter(x.pattern for x in analysis.layers if x.pattern)
    parts = ", ".join(f"{pattern} in {plural(number, 'layer')}" for pattern, number in counts.items())
    return [f"Patterns: {parts}."] if counts else []


def assumptions(analysis: Analysis) -> list[str]:
    """Return notes on unknown operators, embedding tables and the engine, and the notes made while loading."""
    notes = []
    if analysis.unknown:
        notes.append(
            f'unknown operators, treated as "every output depends on every input": {", ".join(analysis.unknown)}; '
            "the true effective sparsity may be higher, but not lower"
        )
    if analysis.apart:
        tables = ", ".join(f"{x.name} ({thousands(x.counts.connections)} weights)" for x in analysis.apart)
        notes.append(f"embedding tables not counted: {tables}; --count-embeddings counts them")
    if analysis.engine != "bits":
        notes.append(f"computed by the {analysis.engine} engine")
    return [*notes, *analysis.notes]


def headline(analysis: Analysis) -> list[str]:
    """Return the input shapes, and whether the result is exact."""
    shapes = {name: dims(shape) for name, shape in analysis.input_shapes.items()}
    if len(shapes) == 1:
        inputs = [f"input {shape}" for shape in shapes.values()]
    else:
        inputs = ["inputs " + ", ".join(f"{name} {shape}" for name, shape in shapes.items())] if shapes else []
    unknown = plural(len(analysis.unknown), "unknown operator")
    return [*inputs, f"a lower bound: {unknown}" if analysis.unknown else "exact, every operator known"]
