"""EFF007: a layer violates the N:M or block pattern declared for it."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.analysis.patterns import broken
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.formatting import plural, thousands
from effsparse_cli.paths.layouts import find_layouts

CODE = "EFF007"


def patterns_of(subject: Subject) -> dict[str, str]:
    """Return the pattern of each layer, from the settings or else from the files next to the model."""
    patterns = {}
    for name in subject.counted:
        given = subject.settings.layer(name).pattern
        op = subject.graph.layers[name].op
        structures = [each for each in subject.claims.structures if each.declared]
        declared = next((each.pattern for each in structures if each.covers(name, op)), "")
        patterns[name] = given or declared
    return {name: pattern for name, pattern in patterns.items() if pattern not in ("", "none")}


def applies(subject: Subject) -> bool:
    return bool(patterns_of(subject))


def check(subject: Subject) -> Iterator[Finding]:
    layouts = find_layouts(subject.graph)
    for name, pattern in patterns_of(subject).items():
        layout = layouts[name]
        if not layout.rows or len(layout.shape) < 2:
            message = f"pattern {pattern} cannot be checked: operators use this weight in different layouts"
            yield Finding(CODE, message, name)
            continue
        kept = layout.read(subject.graph.layers[name].kept())
        breaking, groups = broken(kept, pattern)
        if breaking:
            what = "groups" if ":" in pattern else "blocks"
            message = (
                f"{thousands(breaking)} of {thousands(groups)} {what} "
                f"{'breaks' if breaking == 1 else 'break'} {pattern}"
            )
            yield Finding(CODE, f"{message} ({_meaning(pattern)})", name, measured=breaking, bound=0)


def _meaning(pattern: str) -> str:
    if ":" in pattern:
        n, m = map(int, pattern.split(":"))
        return f"at most {plural(n, 'connection')} in every {m} consecutive inputs"
    return "a block is kept whole or pruned whole"


RULE = Rule(
    About(
        CODE,
        "pattern",
        "A layer must have the N:M or block pattern that is declared for it.",
        """\
N:M (2:4) allows N kept connections in every M consecutive inputs of an output, for each position of a kernel.
ROWSxINPUTS (4x4) requires each block to be kept or pruned as a whole; if the block size does not divide the layer, the
last blocks are smaller. Runs if a pattern is given by --pattern, by pattern in the project file (for a model or a
layer; "none" exempts a layer), or by sparsity_config.sparsity_structure in config.json. Rows are outputs as the
operator uses them, so a transposed weight in an ONNX file is handled correctly.

Example: one fine-tuning step without masks filled the pruned positions of q_proj: the hardware's 2:4 kernels would drop
the additional weights.""",
    ),
    applies,
    check,
)
