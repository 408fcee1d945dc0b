"""Verdicts in every format, read back by the tools the format is meant for: parsers, a schema, a grammar."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml
from sarif_pydantic import Sarif

from effsparse_cli.analysis.results import Analysis, Counts, LayerResult, Layers
from effsparse_cli.checks.verdicts import About, Finding, Verdict, Verdicts
from effsparse_cli.report.escape import printable, sarif
from effsparse_cli.report.findings import FORMATS

RULES = {
    code: About(code, name, f"The rule {name}.", f"All about {name}.")
    for code, name in (("EFF001", "disconnected"), ("EFF003", "effective"), ("EFF011", "unknown-operator"))
}
SCHEMA = Path(__file__).parents[1] / "data" / "sarif-2.1.0-rtm.5.json"
ANNOTATION = re.compile(r"::(error|warning) file=([^:,\r\n]*),title=([^:,\r\n]*)::([^\r\n]*)")


def analysis(connections: int = 100, kept: int = 10, active: int = 5) -> Analysis:
    return Analysis(Layers((LayerResult("fc", "linear", (10, 10), Counts(connections, kept, active), 10, 0),)))


def run(*models: Verdict) -> Verdicts:
    return Verdicts(models, RULES, "1.2.3")


LOW = Finding(
    "EFF003", "effective sparsity is 95.00 %, below 99.00 %", "fc", "error", Fraction(95, 100), Fraction(99, 100)
)
DOUBT = Finding("EFF011", "1 unknown operator (Mystery)", level="warning", measured=1, bound=0)
GOOD = Verdict("good.onnx", analysis(), (), ("EFF001", "EFF003"))
BAD = Verdict("models/bad one,1:2.onnx", analysis(), (LOW, LOW, DOUBT), ("EFF001", "EFF003", "EFF011"))
LOST = Verdict("lost.onnx", None, problem="lost.onnx does not exist", problem_code=3)
ALL = run(GOOD, BAD, LOST)

AWKWARD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdicts:
    """Models and layers with arbitrary names, findings with arbitrary text."""
    findings = [
        Finding(
            draw(st.sampled_from(list(RULES))),
            draw(AWKWARD),
            draw(AWKWARD),
            draw(st.sampled_from(["error", "warning"])),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    judged = Verdict(draw(AWKWARD), analysis(), tuple(findings), tuple(RULES))
    problem = Verdict(draw(AWKWARD), problem=draw(AWKWARD.filter(str.strip)), problem_code=3)
    return run(judged, problem)


def test_codes() -> None:
    assert (GOOD.code, BAD.code, LOST.code, ALL.code) == (0, 1, 3, 3)
    assert (run(GOOD).code, run(GOOD, BAD).code, run().code) == (0, 1, 3)
    assert Verdict("doubtful", analysis(), (DOUBT,), ("EFF011",)).code == 0


def test_text() -> None:
    assert FORMATS["text"](ALL).splitlines() == [
        "good.onnx: passes, direct 90.00 %, effective 95.00 % (EFF001, EFF003)",
        *["models/bad one,1:2.onnx: EFF003 effective: layer fc: effective sparsity is 95.00 %, below 99.00 %"] * 2,
        "models/bad one,1:2.onnx: EFF011 unknown-operator (warning): 1 unknown operator (Mystery)",
        "lost.onnx: lost.onnx does not exist",
        "3 models checked: 1 passes, 1 fails, 1 could not be checked (EFF003)",
    ]


def test_json() -> None:
    document = json.loads(FORMATS["json"](ALL))
    assert list(document) == ["schema_version", "version", "exit_code", "models", "rules"]
    assert (document["schema_version"], document["exit_code"]) == (1, 3)
    good, bad, lost = document["models"]
    assert [good["state"], bad["state"], lost["state"]] == ["holds", "fails", "unmeasured"]
    assert bad["findings"][0] == {
        "code": "EFF003",
        "level": "error",
        "layer": "fc",
        "message": "effective sparsity is 95.00 %, below 99.00 %",
        "measured": 0.95,
        "bound": 0.99,
    }
    assert good["totals"]["effective_sparsity"] == 0.95
    assert (lost["totals"], lost["problem"]) == (None, "lost.onnx does not exist")


@given(verdicts())
def test_json_with_any_names(given: Verdicts) -> None:
    models = json.loads(FORMATS["json"](given))["models"]
    assert [model["model"] for model in models] == [verdict.model for verdict in given.models]


def test_junit() -> None:
    good, bad, lost = JUnitXml.fromstring(FORMATS["junit"](ALL).encode())
    assert [suite.name for suite in (good, bad, lost)] == [verdict.model for verdict in ALL.models]
    assert [(suite.tests, suite.failures, suite.errors) for suite in (good, bad, lost)] == [
        (2, 0, 0),
        (3, 1, 0),
        (1, 0, 1),
    ]
    passed, failed, doubted = bad
    assert (passed.name, passed.result) == ("EFF001 disconnected", [])
    (failure,) = failed.result
    assert isinstance(failure, Failure)
    assert (failure.type, failure.message) == ("EFF003", LOW.text)
    assert failure.text == f"{LOW.text}\n{LOW.text}"
    assert doubted.result == []
    assert doubted.system_out == DOUBT.message
    (case,) = lost
    assert isinstance(case.result[0], Error)


@given(verdicts())
def test_junit_with_any_names(given: Verdicts) -> None:
    suites = list(JUnitXml.fromstring(FORMATS["junit"](given).encode()))
    assert len(suites) == 2
    assert suites[0].tests == len(RULES)
    assert suites[1].errors == 1


@cache
def _schema() -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text()))


def test_the_schema_rejects_unknown_properties() -> None:
    document = json.loads(FORMATS["sarif"](ALL))
    document["runs"][0]["results"][0]["ruleid"] = "EFF003"
    with pytest.raises(jsonschema.ValidationError):
        _schema().validate(document)


def check_sarif(given: Verdicts) -> None:
    text = FORMATS["sarif"](given)
    document = json.loads(text)
    _schema().validate(document)
    (parsed,) = Sarif.model_validate_json(text).runs
    findings = [finding for verdict in given.models for finding in verdict.findings]
    rules = parsed.tool.driver.rules or []
    results = parsed.results or []
    assert [result.rule_id for result in results] == [finding.code for finding in findings]
    assert [rules[result.rule_index].id for result in results] == [finding.code for finding in findings]
    assert [result.message.text for result in results] == [sarif(finding.text) for finding in findings]


GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "not": {"pattern": "^\\./"}},
                    "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer"}}},
                },
            },
        },
    },
}
"""What GitLab's documentation of the code quality report asks for."""


def check_gitlab(given: Verdicts) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(FORMATS["gitlab"](given))
    jsonschema.validate(entries, GITLAB)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    return entries


def test_gitlab() -> None:
    first, second, doubt, lost = check_gitlab(ALL)
    assert first["location"] == {"path": BAD.model, "lines": {"begin": 1}}
    assert [x["severity"] for x in (first, second, doubt, lost)] == ["major", "major", "minor", "critical"]
    assert (first["check_name"], first["description"]) == ("EFF003 effective", LOW.text)
    assert (lost["check_name"], lost["location"]["path"]) == ("not-checked", "lost.onnx")
    # The same finding with another number is the same one for GitLab.
    other = replace(BAD, model=f"./{BAD.model}", findings=(replace(LOW, message="effective sparsity is lower"),))
    assert check_gitlab(run(other))[0]["fingerprint"] == first["fingerprint"]


@given(verdicts())
def test_gitlab_with_any_names(given: Verdicts) -> None:
    check_gitlab(given)


def test_sarif() -> None:
    check_sarif(ALL)
    (parsed,) = json.loads(FORMATS["sarif"](ALL))["runs"]
    first, second, doubt = parsed["results"]
    assert (first["level"], doubt["level"]) == ("error", "warning")
    assert first["partialFingerprints"] == second["partialFingerprints"] != doubt["partialFingerprints"]
    uri = first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == BAD.model
    (invocation,) = parsed["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 3)


@settings(max_examples=30)  # the schema is large
@given(verdicts())
def test_sarif_with_any_names(given: Verdicts) -> None:
    check_sarif(given)


@given(verdicts())
def test_github_with_any_names(given: Verdicts) -> None:
    *lines, summary = FORMATS["github"](given).rstrip("\n").split("\n")
    assert not summary.startswith("::")
    expected = [
        (f.level, printable(verdict.model), printable(f.text)) for verdict in given.models for f in verdict.findings
    ]
    expected += [("error", printable(v.model), printable(v.problem)) for v in given.models if v.problem]
    read = [ANNOTATION.fullmatch(line) for line in lines]
    assert [(m[1], decoded(m[2]), decoded(m[4])) if m else None for m in read] == expected


def decoded(text: str) -> str:
    """Decode as the GitHub runner does."""
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_github() -> None:
    first, *_ = FORMATS["github"](run(BAD)).splitlines()
    assert first == (
        "::error file=models/bad one%2C1%3A2.onnx,title=EFF003 effective::"
        "layer fc: effective sparsity is 95.00 %25, below 99.00 %25"
    )


def test_markdown() -> None:
    assert FORMATS["markdown"](ALL).splitlines() == [
        "**effsparse**: 3 models checked: 1 passes, 1 fails, 1 could not be checked (EFF003)",
        "",
        "| model | direct | effective | result |",
        "| --- | ---: | ---: | --- |",
        "| `good.onnx` | 90.00 % | 95.00 % | passes |",
        "| `models/bad one,1:2.onnx` | 90.00 % | 95.00 % | **fails** EFF003, EFF011 |",
        "| `lost.onnx` |  |  | **not checked** |",
        "",
        *["- `models/bad one,1:2.onnx`: EFF003 effective: layer fc: effective sparsity is 95.00 %, below 99.00 %"] * 2,
        "- `models/bad one,1:2.onnx`: EFF011 unknown-operator (warning): 1 unknown operator (Mystery)",
        "- `lost.onnx`: lost.onnx does not exist",
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_without_models(form: str) -> None:
    assert FORMATS[form](run())
