"""What the numbers mean, in plain sentences, and what they rest on.

Every sentence is true as it stands: counts are exact, "about" is said where a share is rounded, and an
inactive connection that carries a constant is never said to do nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions, dims, percents, plural, thousands

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts


def meaning(analysis: Analysis) -> list[str]:
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
        return "No kept connection is known to be inactive, but the unknown operators may hide some that are."
    if not pruned:
        return "Nothing is pruned, and every connection is active."
    (ratio,) = compressions([totals.kept], totals.connections, "")
    return f"Every kept connection is active: this network is compressed {ratio}, as its zeros say."


def _refilled(totals: Counts, certain: bool) -> str:
    """No compression is stated where stored zeros are not what the network computes with."""
    zeros = "the zeros stored in some layers prune nothing, because these weights are mixed before use."
    if not totals.inactive:
        return f"{'Every kept connection is' if certain else 'All kept connections may be'} active, but {zeros}"
    return f"{_share(totals.inactive, totals.kept, certain, 'do nothing')}, and {zeros}"


def _some_inactive(totals: Counts, certain: bool) -> str:
    share = _share(totals.inactive, totals.kept, certain, "carry no signal" if totals.bias_carriers else "do nothing")
    if totals.kept == totals.connections:
        return f"Nothing is pruned, yet {share[0].lower()}{share[1:]}."
    if not totals.active:
        return f"{share}."
    direct, effective = compressions([totals.kept, totals.active], totals.connections, "")
    return f"{share}: this network is compressed {'' if certain else 'at least '}{effective}, not {direct}."


def _share(inactive: int, kept: int, certain: bool, do: str) -> str:
    """The reader's question is "how many of the kept ones are wasted": a round share, then the exact one."""
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
        where = f" The signal is cut at {layer}{analysis.cut}." if analysis.cut else ""
        return f"The network is disconnected: no path leads from its input to its output.{where}"
    if not totals.active:
        return "Still, the input reaches the output on a path that has no connection on it (a shortcut)."
    narrowest = next((x for x in analysis.layers if x.name == analysis.narrowest), None)
    if narrowest is None or totals.kept == totals.connections:
        return ""
    active = narrowest.counts.active
    its = f"its {thousands(active)} active connections" if active > 1 else "its one active connection"
    return f"It would be cut first at layer {narrowest.name}: without {its} nothing gets through."


def _carriers(totals: Counts) -> str:
    n = totals.bias_carriers
    if not n:
        return ""
    start = "One inactive connection carries" if n == 1 else f"{thousands(n)} inactive connections carry"
    them, they = ("it", "it") if n == 1 else ("them", "they")
    return (
        f"{start} a constant (a bias behind dead inputs): {they} cannot pass on the input, but removing {them} "
        "changes the output unless the constant is folded into the next bias."
    )


def _padding(totals: Counts) -> str:
    if not totals.padding:
        return ""
    one = totals.padding == 1
    who = ("It" if one else "They") if totals.padding == totals.inactive else f"{thousands(totals.padding)} of them"
    return (
        f"{who} only ever {'multiplies padding or feeds' if one else 'multiply padding or feed'} positions that are "
        "thrown away, at this input size; a larger input may change that."
    )


def reasons(totals: Counts) -> list[str]:
    """Why connections are dead, for where the table has no room to say it. (Padding has its own sentence.)"""
    found = {"no-output": totals.no_output, "no-input": totals.no_input, "both": totals.both, "padding": totals.padding}
    said = ", ".join(f"{name} {thousands(number)}" for name, number in found.items() if number)
    return [f"Dead because: {said}."] if totals.inactive > totals.padding else []


def dead_neurons(analysis: Analysis) -> list[str]:
    dead, neurons = (sum(getattr(x, of) for x in analysis.layers) for of in ("dead_neurons", "neurons"))
    return [f"Dead neurons: {thousands(dead)} of {thousands(neurons)}."] if dead else []


def patterns(analysis: Analysis) -> list[str]:
    found = Counter(x.pattern for x in analysis.layers if x.pattern)
    said = ", ".join(f"{pattern} in {plural(number, 'layer')}" for pattern, number in found.items())
    return [f"Patterns: {said}."] if found else []


def assumptions(analysis: Analysis) -> list[str]:
    """One line each: unknown operators, what was counted apart, and the notes of whoever read the model."""
    said = []
    if analysis.unknown:
        said.append(
            f'unknown operators, taken as "every output depends on every input": {", ".join(analysis.unknown)}; '
            "the true effective sparsity may be higher, never lower"
        )
    if analysis.apart:
        tables = ", ".join(f"{x.name} ({thousands(x.counts.connections)} weights)" for x in analysis.apart)
        said.append(f"embedding tables not counted: {tables}; --count-embeddings counts them")
    if analysis.engine != "bits":
        said.append(f"computed by the {analysis.engine} engine")
    return [*said, *analysis.notes]


def headline(analysis: Analysis) -> list[str]:
    """What the model was given, and how far the answer can be trusted."""
    shapes = {name: dims(shape) for name, shape in analysis.input_shapes.items()}
    if len(shapes) == 1:
        inputs = [f"input {shape}" for shape in shapes.values()]
    else:
        inputs = ["inputs " + ", ".join(f"{name} {shape}" for name, shape in shapes.items())] if shapes else []
    unknown = plural(len(analysis.unknown), "unknown operator")
    return [*inputs, f"a lower bound: {unknown}" if analysis.unknown else "exact, every operator known"]
