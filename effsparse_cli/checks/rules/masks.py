"""EFF010: a mask and its weight disagree."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.rule import Rule, Subject, always
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.formatting import plural, thousands
from effsparse_cli.graph.graph import Layer

CODE = "EFF010"


def check(subject: Subject) -> Iterator[Finding]:
    for name in subject.counted:
        layer = subject.graph.layers[name]
        zeros, hidden = _disagreements(layer)
        if zeros:
            kept = plural(layer.kept().sum().item(), "connection")
            message = f"the mask keeps {kept}, but {thousands(zeros)} of them {'is' if zeros == 1 else 'are'} zero"
            yield Finding(CODE, message, name, measured=zeros, bound=0)
        if hidden and subject.settings.strict_masks:
            message = f"{plural(hidden, 'weight')} under a zero mask {'is' if hidden == 1 else 'are'} not zero"
            yield Finding(CODE, message, name, measured=hidden, bound=0)


def _disagreements(layer: Layer) -> tuple[int, int]:
    """Count weights that are kept but zero, and pruned but not zero. Without a mask nothing can disagree: a weight may
    be computed from values among which zero has no special meaning."""
    if not layer.masked or layer.values is None:
        return 0, 0
    kept, values = layer.kept(), layer.values()
    nonzero = values != 0
    return int((kept & ~nonzero).sum()), int((~kept & nonzero).sum())


RULE = Rule(
    About(
        CODE,
        "mask-mismatch",
        "A mask must keep only non-zero weights.",
        """\
In a file with masks, the masks decide what is kept. A zero weight that its mask keeps counts as a connection, although
the file is sparser than its masks claim. Runs by default. With --strict-masks, non-zero weights that a mask prunes fail
too: they come back as soon as the mask is lost. (torch.nn.utils.prune stores weights this way, so it is allowed by
default.)

Example: masks of an earlier pruning round were saved with the weights of a later one.""",
    ),
    always,
    check,
)
