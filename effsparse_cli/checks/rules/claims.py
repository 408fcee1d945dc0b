"""EFF006: a model is less sparse than it is said to be."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from effsparse_cli.analysis.patterns import broken
from effsparse_cli.checks.bounds import direct, effective, shares
from effsparse_cli.checks.claims import Claim, Structure
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.paths.layouts import find_layouts

CODE = "EFF006"
NOT_ENFORCED = "; --claims all enforces it"
MOST = Fraction(1, 2)
"""The share of connections that must be in layers of a pattern which a card claims for the model: first and last layers
are seldom pruned."""


def claims_of(subject: Subject) -> list[Claim]:
    """All claims on sparsities that are enforced."""
    settings = subject.settings
    given = (("direct", settings.claim, "claim"), ("effective", settings.claim_effective, "claim-effective"))
    own = [Claim(kind, share, f"the given {name}") for kind, share, name in given if share is not None]
    return [*own, *(claim for claim in subject.claims.sparsities if _is_enforced(subject, claim))]


def patterns_said(subject: Subject) -> list[Structure]:
    """Patterns that prose or names claim. Declared ones are EFF007's."""
    return [structure for structure in subject.claims.structures if not structure.declared]


def applies(subject: Subject) -> bool:
    said = patterns_said(subject) if subject.settings.claims == "all" else []
    return bool(claims_of(subject) or said or subject.claims.unreadable)


def check(subject: Subject) -> Iterator[Finding]:
    for file in subject.claims.unreadable:
        yield Finding(CODE, f"what is claimed in {file} cannot be read, so it cannot be checked")
    for claim in claims_of(subject):
        finding = _compared(subject, claim)
        if finding.level == "error":
            yield finding
    for structure in patterns_said(subject) if subject.settings.claims == "all" else ():
        finding = _compared_pattern(subject, structure)
        if finding.level == "error":
            yield finding


def show(subject: Subject) -> Iterator[Finding]:
    """What prose and names claim, whether it holds or not."""
    findings = [_compared(subject, claim) for claim in subject.claims.sparsities if not claim.declared]
    findings += [_compared_pattern(subject, structure) for structure in patterns_said(subject)]
    for finding in findings:
        if finding.level == "note":
            yield finding
        elif subject.settings.claims != "all":
            yield Finding(
                CODE, finding.message + NOT_ENFORCED, level="warning", measured=finding.measured, bound=finding.bound
            )


def _is_enforced(subject: Subject, claim: Claim) -> bool:
    return claim.declared or subject.settings.claims == "all"


def _compared(subject: Subject, claim: Claim) -> Finding:
    totals = subject.analysis.totals
    measured = direct(totals) if claim.kind == "direct" else effective(totals)
    holds = measured >= claim.share - subject.settings.claim_tolerance
    found, said = shares(measured, claim.share)
    message = f"{claim.kind} sparsity is {found}, {'as' if holds else 'and'} {claim.source} says {said}"
    return Finding(CODE, message, level="note" if holds else "error", measured=measured, bound=claim.share)


def _compared_pattern(subject: Subject, structure: Structure) -> Finding:
    layouts = find_layouts(subject.graph)
    inside = 0
    for layer in subject.analysis.layers:
        layout = layouts[layer.name]
        if layout.rows and len(layout.shape) > 1 and layer.counts.connections:
            kept = layout.read(subject.graph.layers[layer.name].kept())
            inside += 0 if broken(kept, structure.pattern)[0] else layer.counts.connections
    share = Fraction(inside, subject.analysis.totals.connections)
    holds = share >= MOST
    (text,) = shares(share)
    pattern, joined = structure.pattern, "as" if holds else "and"
    message = f"{text} of the connections are in {pattern} layers, {joined} {structure.source} says {pattern}"
    return Finding(CODE, message, level="note" if holds else "error", measured=share, bound=MOST)


RULE = Rule(
    About(
        CODE,
        "claim",
        "A model must be as sparse as it is said to be.",
        """\
A claim says that a model is at least so sparse. Claims are read from --claim, from claim and claim-effective in
[models."PATTERN"] of the project file, and from the files beside the model: sparsity_config.global_sparsity
(compressed-tensors, unless its format is dense), sparsity, direct_sparsity and effective_sparsity in config.json, and
the same keys in the front matter of README.md, as 0.99 or 99 %. Every claim found is checked, to within claim-tolerance
(a millionth). Runs where there is a claim.

What the prose of README.md says ("90 % sparse", "Sparsity: 2:4") and what a model's name says (sparse-90, pruned75,
2of4) is shown, with the place where it was found, and enforced with --claims all. A pattern that is claimed so must
hold in the layers that have at least half of the connections. A card that names several sparsities claims none.

Example: the card says sparsity: 0.9, but the re-export folded the masks away and the file holds 12 % zeros.""",
    ),
    applies,
    check,
    show,
)
