"""EFF010: a mask and the weight behind it do not say the same."""

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
        empty, hidden = _disagreements(layer)
        if empty:
            kept = plural(subject.graph.layers[name].kept().sum().item(), "connection")
            message = f"the mask keeps {kept}, but {thousands(empty)} of them {'is' if empty == 1 else 'are'} zero"
            yield Finding(CODE, message, name, measured=empty, bound=0)
        if hidden and subject.settings.strict_masks:
            message = f"{plural(hidden, 'weight')} behind a mask of zero {'is' if hidden == 1 else 'are'} not zero"
            yield Finding(CODE, message, name, measured=hidden, bound=0)


def _disagreements(layer: Layer) -> tuple[int, int]:
    """Kept and zero; not kept and not zero. Without a mask there is nothing to disagree with: a weight may be
    computed from numbers of which zero is as good as any."""
    if not layer.masked or layer.values is None:
        return 0, 0
    kept, values = layer.kept(), layer.values()
    nonzero = values != 0
    return int((kept & ~nonzero).sum()), int((~kept & nonzero).sum())


RULE = Rule(
    About(
        CODE,
        "mask-mismatch",
        "A mask must keep only weights that are there.",
        """\
Where a file has masks, they say what is kept. A weight of zero that its mask keeps counts as a connection and is
none: the file is sparser than its masks say. Runs by default. With --strict-masks the other way fails too:
a weight that is not zero behind a mask of zero, which comes back as soon as the mask is lost. (That is how
torch.nn.utils.prune stores weights, so it is allowed unless asked.)

Example: masks of an earlier pruning round were saved with the weights of a later one.""",
    ),
    always,
    check,
)
