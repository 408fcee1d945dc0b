"""Every rule through the command line: what passes, what fails and with which words, and what lies on the edge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from effsparse_cli.checks.rules import RULES, load_rules
from tests.checks.models import chain, dense, with_dead_ends, write_mlp
from tests.commands.conftest import Outcome, Run

Finding = dict[str, Any]


@pytest.fixture
def check(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        return effsparse("check", *arguments)

    return run


def findings(outcome: Outcome) -> list[Finding]:
    """Return the broken rules, and check that the exit code matches."""
    (model,) = json.loads(outcome.out)["models"]
    found: list[Finding] = model["findings"]
    assert outcome.code == (1 if any(finding["level"] == "error" for finding in found) else 0)
    return found


def holds(outcome: Outcome, code: str) -> bool:
    """The rule was checked, and nothing broke it."""
    (model,) = json.loads(outcome.out)["models"]
    return code in model["checked"] and not any(finding["code"] == code for finding in model["findings"])


def only(outcome: Outcome, code: str) -> Finding:
    assert outcome.code == 1
    (finding,) = findings(outcome)
    assert finding["code"] == code
    return finding


def test_eff001_disconnected(check: Run, tmp_path: Path) -> None:
    weights = chain()
    assert holds(check(write_mlp(tmp_path / "m.onnx", weights), "-f", "json"), "EFF001")
    weights["fc1"][2:] = 0
    weights["fc2"][:, :2] = 0
    weights["fc2"][2:, 2:] = 1
    cut = write_mlp(tmp_path / "cut.onnx", weights)
    finding = only(check(cut, "-f", "json"), "EFF001")
    assert finding["message"] == "no path leads from the input to the output; the signal is cut at fc2"
    relaxed = check(cut, "-f", "json", "--no-connected")
    assert "EFF001" not in json.loads(relaxed.out)["models"][0]["checked"]


def test_eff002_collapsed(check: Run, tmp_path: Path) -> None:
    weights = {"fc1": np.eye(4, dtype=np.float32), "fc2": np.zeros((4, 4), np.float32)}
    model = write_mlp(tmp_path / "m.onnx", weights)
    finding = only(check(model, "-f", "json", "--ignore", "EFF001"), "EFF002")
    assert (finding["layer"], finding["message"]) == ("fc2", "every connection is pruned")
    (tmp_path / "effsparse.toml").write_text('[check]\nignore = ["EFF001"]\nmay-collapse = ["fc2"]\n')
    assert holds(check(model, "-f", "json"), "EFF002")
    one = {"fc1": np.zeros((4, 4), np.float32), "fc2": np.eye(4, dtype=np.float32)}
    one["fc1"][0, 0] = 1
    assert holds(check(write_mlp(tmp_path / "one.onnx", one), "-f", "json"), "EFF002"), (
        "one active connection is enough"
    )


def test_eff003_effective(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", chain())
    assert holds(check(model, "-f", "json", "--min-effective", "0.75", "--max-effective", "0.75"), "EFF003")
    low = only(check(model, "-f", "json", "--min-effective", "0.7500001"), "EFF003")
    assert low["message"] == "effective sparsity is 75.00000 %, below 75.00001 %"
    assert (low["measured"], low["bound"]) == (0.75, 0.7500001)
    high = only(check(model, "-f", "json", "--max-effective", "0.5"), "EFF003")
    assert high["message"] == "effective sparsity is 75.00 %, above 50.00 %"


def test_eff003_compares_what_is_written(check: Run, tmp_path: Path) -> None:
    """1 - 3/10 is not 0.7 in binary numbers; as fractions it is."""
    weights = {"fc1": np.zeros((1, 10), np.float32)}
    weights["fc1"][0, :3] = 1
    model = write_mlp(tmp_path / "m.onnx", weights)
    assert 1 - 3 / 10 >= 0.7
    for bound in ("0.7", "0.70", "7e-1"):
        assert check(model, "--min-effective", bound, "--max-effective", bound).code == 0


def test_eff004_gap(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    assert holds(check(model, "-f", "json", "--max-gap", "0.0625", "--max-inactive", "2"), "EFF004")
    finding = only(check(model, "-f", "json", "--max-gap", "0.06"), "EFF004")
    assert finding["message"] == (
        "effective sparsity (81.25 %) exceeds direct sparsity (75.00 %) by 6.25 %, more than the allowed 6.00 %: "
        "2 of 8 kept connections are inactive"
    )
    finding = only(check(model, "-f", "json", "--max-inactive", "1"), "EFF004")
    assert finding["message"] == "2 of 8 kept connections are inactive; at most 1 is allowed"
    assert check(write_mlp(tmp_path / "none.onnx", chain()), "--max-inactive", "0", "--max-gap", "0").code == 0


def test_eff005_layer_bound(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", chain())
    config = tmp_path / "effsparse.toml"
    config.write_text('[check.layers."fc*"]\nmin-effective = 0.9\n[models."m.onnx".layers.fc1]\nmin-effective = 0.75\n')
    finding = only(check(model, "-f", "json"), "EFF005")
    assert (finding["layer"], finding["message"]) == ("fc2", "effective sparsity is 75.00 %, below 90.00 %")
    config.write_text('[check.layers."fc*"]\nmin-effective = 0.75\nmax-inactive = 0\n')
    assert holds(check(model, "-f", "json"), "EFF005")
    config.write_text('[check.layers."conv*"]\nmin-effective = 0.75\n')
    assert "no layer name matches 'conv*'" in only(check(model, "-f", "json"), "EFF005")["message"]


@pytest.mark.parametrize("share", ["0.8", '"80%"', "80"])
def test_eff006_claim_of_a_card(check: Run, tmp_path: Path, share: str) -> None:
    model = write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "README.md").write_text(f"---\nlicense: mit\nsparsity: {share}\n---\n\n# A model\n")
    finding = only(check(model, "-f", "json"), "EFF006")
    assert finding["message"] == f"direct sparsity is 75.00 %, but sparsity in {tmp_path / 'README.md'} says 80.00 %"


@pytest.mark.parametrize("holder", [None, "quantization_config", "compression_config"])
def test_eff006_claim_of_compressed_tensors(check: Run, tmp_path: Path, holder: str | None) -> None:
    model = write_mlp(tmp_path / "m.onnx", chain())
    for share, code in ((0.75, 0), (0.75000001, 0), (0.7501, 1)):
        table: dict[str, Any] = {"sparsity_config": {"global_sparsity": share, "sparsity_structure": "unstructured"}}
        (tmp_path / "config.json").write_text(json.dumps({holder: table} if holder else table))
        outcome = check(model, "-f", "json")
        assert outcome.code == code
        assert holds(outcome, "EFF006") == (code == 0)
    assert "sparsity_config.global_sparsity" in only(outcome, "EFF006")["message"]


def test_eff006_claims_given(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    assert holds(check(model, "-f", "json", "--claim", "0.75"), "EFF006")
    assert only(check(model, "-f", "json", "--claim", "0.76"), "EFF006")["bound"] == 0.76
    (tmp_path / "effsparse.toml").write_text('[models."*.onnx"]\nclaim = 0.5\nclaim-effective = 0.82\n')
    message = only(check(model, "-f", "json"), "EFF006")["message"]
    assert message == "effective sparsity is 81.25 %, but the given claim-effective says 82.00 %"


def test_eff006_unreadable_claims_fail(check: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    assert "cannot be read" in only(check(write_mlp(tmp_path / "m.onnx", chain()), "-f", "json"), "EFF006")["message"]


@pytest.mark.parametrize("transposed", [False, True])
def test_eff007_pattern(check: Run, tmp_path: Path, transposed: bool) -> None:
    weights = dense(8, 4)
    weights["fc1"][:, ::2] = 0
    model = write_mlp(tmp_path / "m.onnx", weights, transposed=transposed)
    assert holds(check(model, "-f", "json", "--pattern", "2:4"), "EFF007")
    weights["fc1"][1, 0] = 1
    write_mlp(model, weights, transposed=transposed)
    finding = only(check(model, "-f", "json", "--pattern", "2:4"), "EFF007")
    assert finding["message"] == "1 of 8 groups breaks 2:4 (at most 2 connections in every 4 consecutive inputs)"
    (tmp_path / "effsparse.toml").write_text('[check]\npattern = "2:4"\n[check.layers.fc1]\npattern = "none"\n')
    assert check(model).code == 0


def test_eff007_blocks(check: Run, tmp_path: Path) -> None:
    weights = dense(5, 4)
    weights["fc1"][:2, :2] = 0
    weights["fc1"][:, 4] = 0
    model = write_mlp(tmp_path / "m.onnx", weights)
    assert holds(check(model, "-f", "json", "--pattern", "2x2"), "EFF007"), "the last column's blocks are narrow"
    weights["fc1"][0, 0] = 1
    finding = only(check(write_mlp(model, weights), "-f", "json", "--pattern", "2x2"), "EFF007")
    assert finding["message"] == "1 of 6 blocks breaks 2x2 (a block is kept whole or pruned whole)"


def test_eff007_declared(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", dense(4, 4, 4))
    declared: dict[str, Any] = {"sparsity_structure": "2:4", "targets": ["Linear"], "ignore": ["re:.*2"]}
    (tmp_path / "config.json").write_text(json.dumps({"sparsity_config": declared}))
    assert only(check(model, "-f", "json"), "EFF007")["layer"] == "fc1"


def test_eff008_regression(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", with_dead_ends(0))
    assert check(model, "--write-baseline", "base.json").code == 0
    assert holds(check(model, "-f", "json", "--baseline", "base.json"), "EFF008")
    write_mlp(model, chain())
    found = findings(check(model, "-f", "json", "--baseline", "base.json"))
    assert [finding["message"] for finding in found] == [
        "direct sparsity is 75.00 %, 81.25 % in the baseline (kept: fc1 +1, fc2 +1)",
        "effective sparsity is 75.00 %, 81.25 % in the baseline (active: fc1 +1, fc2 +1)",
    ]
    (tmp_path / "effsparse.toml").write_text('[check]\nbaseline = "base.json"\nbaseline-tolerance = 0.0625\n')
    assert holds(check(model, "-f", "json"), "EFF008"), "on the edge of the tolerance"
    (tmp_path / "effsparse.toml").unlink()
    write_mlp(model, with_dead_ends(1))
    messages = [f["message"] for f in findings(check(model, "-f", "json", "--baseline", "base.json"))]
    assert messages == [
        "direct sparsity is 78.12 %, 81.25 % in the baseline (kept: fc1 +1)",
        "1 inactive connection, 0 in the baseline",
    ]


def test_eff008_other_models(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", chain())
    check(model, "--write-baseline", "base.json")
    other = write_mlp(tmp_path / "other.onnx", chain())
    assert (
        "does not contain this model"
        in only(check(other, "-f", "json", "--baseline", "base.json"), "EFF008")["message"]
    )
    check(other, "--write-baseline", "base.json")
    assert check(tmp_path, "--baseline", "base.json").code == 0, "earlier entries stay"
    write_mlp(model, {"fc1": np.eye(5, 4, dtype=np.float32), "fc2": np.eye(4, 5, dtype=np.float32)})
    first, *_ = findings(check(model, "-f", "json", "--baseline", "base.json"))
    assert first["message"] == "40 connections, 32 in the baseline"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([np.nan], "contains 1 NaN value"),
        ([np.inf, -np.inf], "contains 2 infinite values"),
        ([np.nan, np.inf], "contains 1 NaN and 1 infinite values"),
    ],
)
def test_eff009_not_finite(check: Run, tmp_path: Path, values: list[float], expected: str) -> None:
    weights = chain()
    weights["fc1"][0, : len(values)] = values
    finding = only(check(write_mlp(tmp_path / "m.onnx", weights), "-f", "json"), "EFF009")
    assert (finding["layer"], finding["message"]) == ("fc1", expected)


def test_eff009_huge_is_finite(check: Run, tmp_path: Path) -> None:
    weights = chain()
    weights["fc1"][:, 0] = np.finfo(np.float32).max
    assert holds(check(write_mlp(tmp_path / "m.onnx", weights), "-f", "json"), "EFF009")


def test_eff010_mask_mismatch(check: Run, tmp_path: Path) -> None:
    mask = np.eye(4, dtype=np.float32)
    weights = dense(4, 4, 4)
    model = write_mlp(tmp_path / "m.onnx", weights, {"fc1": mask})
    assert holds(check(model, "-f", "json"), "EFF010"), "torch keeps the values of masked weights"
    hidden = only(check(model, "-f", "json", "--strict-masks"), "EFF010")
    assert hidden["message"] == "12 weights under a zero mask are not zero"
    weights["fc1"][0, 0] = 0
    finding = only(check(write_mlp(model, weights, {"fc1": mask}), "-f", "json"), "EFF010")
    assert finding["message"] == "the mask keeps 4 connections, but 1 of them is zero"


def test_eff011_unknown_operator(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", chain(), custom=True)
    outcome = check(model, "-f", "json", "--min-effective", "0.75")
    (finding,) = findings(outcome)
    assert (outcome.code, finding["code"], finding["level"]) == (0, "EFF011", "warning")
    assert "Mystery" in finding["message"]
    finding = only(check(model, "-f", "json", "--max-gap", "0.1"), "EFF011")
    assert finding["message"].endswith("so --max-gap cannot be verified")
    assert check(model, "--max-gap", "0.1", "--ignore", "EFF011").code == 0
    low = findings(check(model, "-f", "json", "--min-effective", "0.8"))
    assert low[0]["message"].endswith("; 1 unknown operator may hide more")


def test_eff012_direct(check: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", with_dead_ends(2))
    assert holds(check(model, "-f", "json", "--min-direct", "0.75", "--max-direct", "0.75"), "EFF012")
    low = only(check(model, "-f", "json", "--min-direct", "0.76"), "EFF012")
    assert low["message"] == "direct sparsity is 75.00 %, below 76.00 %"
    high = only(check(model, "-f", "json", "--max-direct", "0.74"), "EFF012")
    assert high["message"] == "direct sparsity is 75.00 %, above 74.00 %"


@pytest.mark.parametrize("code", RULES)
def test_every_rule_is_explained(check: Run, code: str) -> None:
    outcome = check("--explain", code.lower())
    about = load_rules()[code].about
    assert about.code == code
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"{code} {about.name}: {about.summary}\n\n")
    assert "Example" in outcome.out
    assert check("--explain", about.name).out == outcome.out


@pytest.mark.parametrize(
    ("name", "card", "place"),
    [
        ("m.onnx", "This is a 90 % sparse model.", 'line 1 of README.md ("90 % sparse")'),
        ("m-pruned90.onnx", "", "the name m-pruned90"),
    ],
)
def test_eff006_claims_of_prose_and_names(check: Run, tmp_path: Path, name: str, card: str, place: str) -> None:
    """Mentioned claims are shown with their location, and enforced with --claims all."""
    write_mlp(tmp_path / name, chain())
    (tmp_path / "README.md").write_text(card)
    shown = check(name)
    assert shown.code == 0
    expected = f"EFF006 claim (warning): direct sparsity is 75.00 %, but {place} says 90.00 %; --claims all enforces it"
    assert expected in shown.out
    enforced = check(name, "--claims", "all", "-f", "json")
    assert enforced.code == 1
    assert only(enforced, "EFF006")["bound"] == 0.9
    (tmp_path / "effsparse.toml").write_text('[check]\nclaims = "all"\n')
    assert check(name).code == 1
    assert check(name, "--claims", "declared").code == 0


def test_eff006_claims_that_hold_are_shown(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "README.md").write_text("Sparsity: 1:4\n\nThis model is 70% sparse.\n")
    for options in ([], ["--claims", "all"]):
        outcome = check("m.onnx", *options)
        assert outcome.code == 0
        assert "(note): direct sparsity is 75.00 %, as line 3 of README.md" in outcome.out
        assert "(note): 100 % of the connections are in 1:4 layers, as line 1 of README.md" in outcome.out
    write_mlp(tmp_path / "m.onnx", dense(4, 4))
    outcome = check("m.onnx", "--claims", "all", "-f", "json")
    assert outcome.code == 1
    assert "0 % of the connections are in 1:4 layers, but line 1" in outcome.out


def test_eff006_a_claim_that_is_not_enforced_is_no_check(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m-pruned50.onnx", chain())
    assert check("m-pruned50.onnx", "--select", "EFF006").code == 3
    assert check("m-pruned50.onnx", "--select", "EFF006", "--claims", "all").code == 0
