"""EFF005: a layer is outside the bounds set for its name."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from effsparse_cli.checks.bounds import check_direct, check_effective, check_gap
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.graph.layer_names import closest_names

CODE = "EFF005"


def applies(subject: Subject) -> bool:
    return bool(subject.settings.layers)


def check(subject: Subject) -> Iterator[Finding]:
    names = [layer.name for layer in subject.analysis.layers]
    for pattern in subject.settings.layers:
        if not any(fnmatchcase(name, pattern) for name in names):
            closest = closest_names(pattern, names)
            yield Finding(
                CODE, f"no layer name matches {pattern!r}, so its bounds apply to nothing; closest: {closest}"
            )
    for layer in subject.analysis.layers:
        bounds = subject.settings.layer(layer.name).bounds
        if layer.counts.connections:
            yield from check_effective(CODE, layer.counts, bounds, layer.name)
            yield from check_direct(CODE, layer.counts, bounds, layer.name)
            yield from check_gap(CODE, layer.counts, bounds, layer.name)


RULE = Rule(
    About(
        CODE,
        "layer-bound",
        "A layer must be within the bounds that the project file sets for its name.",
        """\
The project file can set bounds for layers by name pattern (* and ?); later patterns override earlier ones. A pattern
that matches no layer fails the check, because its bounds would never apply.

Example, in effsparse.toml:

    [check.layers."encoder.*"]
    min-effective = 0.9
    [models."tiny.onnx".layers."classifier"]
    max-effective = 0.5""",
    ),
    applies,
    check,
)
