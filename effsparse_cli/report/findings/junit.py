"""JUnit XML, which most CI servers display: one suite per model, one case per rule that was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from effsparse_cli.report.escape import escaping, printable

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Verdict, Verdicts

FAILED = {"failures": "failure", "errors": "error"}
"""Attributes of a suite, and the elements that each counts."""


@escaping(printable)
def render(verdicts: Verdicts) -> str:
    suites = [_suite(verdict, verdicts) for verdict in verdicts.models]
    root = ElementTree.Element("testsuites", {"name": "effsparse", **_sums(suites)})
    root.extend(suites)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(verdict: Verdict, verdicts: Verdicts) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", {"name": verdict.model})
    if verdict.problem:
        _add_text(_case(suite, verdict, "read"), "error", "", verdict.problem)
    for code in verdict.checked:
        case = _case(suite, verdict, f"{code} {verdicts.rules[code].name}")
        findings = [finding for finding in verdict.findings if finding.code == code]
        errors = [finding.text for finding in findings if finding.level == "error"]
        if errors:
            _add_text(case, "failure", code, "\n".join(errors))
        elif findings:
            ElementTree.SubElement(case, "system-out").text = "\n".join(f.text for f in findings)
    cases = list(suite)
    others = [finding.text for finding in verdict.findings if finding.code not in verdict.checked]
    if others:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(others)
    failed = {name: sum(case.find(tag) is not None for case in cases) for name, tag in FAILED.items()}
    suite.attrib.update({"tests": str(len(cases)), **{name: str(number) for name, number in failed.items()}})
    return suite


def _case(suite: ElementTree.Element, verdict: Verdict, name: str) -> ElementTree.Element:
    attributes = {"classname": verdict.model, "name": name, "file": verdict.model}
    return ElementTree.SubElement(suite, "testcase", attributes)


def _add_text(case: ElementTree.Element, tag: str, kind: str, text: str) -> None:
    first = text.splitlines()[0]
    ElementTree.SubElement(case, tag, {"message": first, **({"type": kind} if kind else {})}).text = text


def _sums(suites: list[ElementTree.Element]) -> dict[str, str]:
    return {name: str(sum(int(suite.attrib[name]) for suite in suites)) for name in ("tests", *FAILED)}
