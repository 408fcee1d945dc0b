"""EFF006: a model is less sparse than claimed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from effsparse_cli.analysis.patterns import broken
from effsparse_cli.checks.bounds import direct, effective, format_shares
from effsparse_cli.checks.claims import Claim, Structure
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.paths.layouts import find_layouts

CODE = "EFF006"
NOT_ENFORCED = "; --claims all enforces it"
MIN_PATTERN_SHARE = Fraction(1, 2)
"""Minimum fraction of connections in layers with a pattern that prose claims for a model: first and last layers are
seldom pruned."""


def enforced_claims(subject: Subject) -> list[Claim]:
    """Return all sparsity claims that are enforced."""
    settings = subject.settings
    given = (("direct", settings.claim, "claim"), ("effective", settings.claim_effective, "claim-effective"))
    own = [Claim(kind, share, f"the given {name}") for kind, share, name in given if share is not None]
    return [*own, *(claim for claim in subject.claims.sparsities if _is_enforced(subject, claim))]


def claimed_patterns(subject: Subject) -> list[Structure]:
    """Return patterns claimed in prose or names. EFF007 checks declared ones."""
    return [structure for structure in subject.claims.structures if not structure.declared]


def applies(subject: Subject) -> bool:
    patterns = claimed_patterns(subject) if subject.settings.claims == "all" else []
    return bool(enforced_claims(subject) or patterns or subject.claims.unreadable)


def check(subject: Subject) -> Iterator[Finding]:
    for file in subject.claims.unreadable:
        yield Finding(CODE, f"claims in {file} cannot be read, so they cannot be checked")
    for claim in enforced_claims(subject):
        finding = _check_sparsity(subject, claim)
        if finding.level == "error":
            yield finding
    for structure in claimed_patterns(subject) if subject.settings.claims == "all" else ():
        finding = _check_pattern(subject, structure)
        if finding.level == "error":
            yield finding


def show(subject: Subject) -> Iterator[Finding]:
    """Report claims in prose and names, whether they are true or not."""
    findings = [_check_sparsity(subject, claim) for claim in subject.claims.sparsities if not claim.declared]
    findings += [_check_pattern(subject, structure) for structure in claimed_patterns(subject)]
    for finding in findings:
        if finding.level == "note":
            yield finding
        elif subject.settings.claims != "all":
            yield Finding(
                CODE, finding.message + NOT_ENFORCED, level="warning", measured=finding.measured, bound=finding.bound
            )


def _is_enforced(subject: Subject, claim: Claim) -> bool:
    return claim.declared or subject.settings.claims == "all"


def _check_sparsity(subject: Subject, claim: Claim) -> Finding:
    totals = subject.analysis.totals
    measured = direct(totals) if claim.kind == "direct" else effective(totals)
    holds = measured >= claim.share - subject.settings.claim_tolerance
    actual, claimed = format_shares(measured, claim.share)
    message = f"{claim.kind} sparsity is {actual}, {'as' if holds else 'but'} {claim.source} says {claimed}"
    return Finding(CODE, message, level="note" if holds else "error", measured=measured, bound=claim.share)


def _check_pattern(subject: Subject, structure: Structure) -> Finding:
    layouts = find_layouts(subject.graph)
    inside = 0
    for layer in subject.analysis.layers:
        layout = layouts[layer.name]
        if layout.rows and len(layout.shape) > 1 and layer.counts.connections:
            kept = layout.read(subject.graph.layers[layer.name].kept())
            inside += 0 if broken(kept, structure.pattern)[0] else layer.counts.connections
    share = Fraction(inside, subject.analysis.totals.connections)
    holds = share >= MIN_PATTERN_SHARE
    (text,) = format_shares(share)
    pattern, conjunction = structure.pattern, "as" if holds else "but"
    message = f"{text} of the connections are in {pattern} layers, {conjunction} {structure.source} says {pattern}"
    return Finding(CODE, message, level="note" if holds else "error", measured=share, bound=MIN_PATTERN_SHARE)


RULE = Rule(
    About(
        CODE,
        "claim",
        "A model must be as sparse as claimed.",
        """\
A claim is a minimum sparsity. Claims are read from --claim, from claim and claim-effective in [models."PATTERN"] of the
project file, and from the files next to the model: sparsity_config.global_sparsity (compressed-tensors, unless its
format is dense), sparsity, direct_sparsity and effective_sparsity in config.json, and the same keys in the front matter
of README.md, as 0.99 or 99 %. Every claim is checked, with a tolerance of claim-tolerance (one millionth by default).
Runs if there is a claim.

Claims in the prose of README.md ("90 % sparse", "Sparsity: 2:4") and in a model's name (sparse-90, pruned75, 2of4) are
reported with their location; --claims all enforces them. A pattern claimed this way must hold in layers that have at
least half of the connections. A README.md that mentions several sparsities claims none of them.

Example: README.md says sparsity: 0.9, but a re-export dropped the masks and only 12 % of the weights are zero.""",
    ),
    applies,
    check,
    show,
)
