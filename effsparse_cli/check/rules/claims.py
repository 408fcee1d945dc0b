"""EFF006: a model is less sparse than it is said to be."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.check.bounds import direct, effective, shares
from effsparse_cli.check.claims import Claim
from effsparse_cli.check.rule import Rule, Subject
from effsparse_cli.report.verdicts import About, Finding

CODE = "EFF006"


def claims_of(subject: Subject) -> list[Claim]:
    settings = subject.settings
    given = (("direct", settings.claim, "claim"), ("effective", settings.claim_effective, "claim-effective"))
    own = [Claim(kind, share, f"the given {name}") for kind, share, name in given if share is not None]
    return [*own, *subject.claims.sparsities]


def applies(subject: Subject) -> bool:
    return bool(claims_of(subject) or subject.claims.unreadable)


def check(subject: Subject) -> Iterator[Finding]:
    totals = subject.analysis.totals
    for file in subject.claims.unreadable:
        yield Finding(CODE, f"what is claimed in {file} cannot be read, so it cannot be checked")
    for claim in claims_of(subject):
        measured = direct(totals) if claim.kind == "direct" else effective(totals)
        if measured < claim.share - subject.settings.claim_tolerance:
            found, said = shares(measured, claim.share)
            message = f"{claim.kind} sparsity is {found}, and {claim.source} says {said}"
            yield Finding(CODE, message, measured=measured, bound=claim.share)


RULE = Rule(
    About(
        CODE,
        "claim",
        "A model must be as sparse as it is said to be.",
        """\
A claim says that a model is at least so sparse. Claims are read from --claim, from claim and claim-effective in
[models."PATTERN"] of the project file, and from the files beside the model: sparsity_config.global_sparsity
(compressed-tensors), sparsity, direct_sparsity and effective_sparsity in config.json, and the same keys in
the front matter of README.md, as 0.99 or 99 %. Every claim found is checked, to within claim-tolerance
(a millionth). Runs where there is a claim.

Example: the card says sparsity: 0.9, but the re-export folded the masks away and the file holds 12 % zeros.""",
    ),
    applies,
    check,
)
