"""Compare every format of every case with its golden file. UPDATE_GOLDEN=1 rewrites the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.page import build_page
from effsparse_cli.report.look import Look
from tests.report.cases import CASES

GOLDEN = Path(__file__).parent / "golden"
LOOKS = {
    "wide": Look(200),
    "pipe": Look(120),
    "terminal": Look(80),
    "narrow": Look(60),
    "colour": Look(120, colour=True),
    "ascii": Look(120, unicode=False),
}
TABLES = [
    (case, look) for case in CASES for look in (LOOKS if case in ("headline", "language", "patterns") else ("pipe",))
]
DOCUMENTS = [(case, form) for case in CASES for form in FORMATS if form not in ("table", "html")]


def compare(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(("case", "look"), TABLES)
def test_table(case: str, look: str) -> None:
    compare(f"{case}.{look}.txt", FORMATS["table"](build_page(f"{case}.pt", CASES[case], look=LOOKS[look])))


@pytest.mark.parametrize(("case", "form"), DOCUMENTS)
def test_document(case: str, form: str) -> None:
    compare(f"{case}.{form}", FORMATS[form](build_page(f"{case}.pt", CASES[case])))


def test_every_golden_file_is_used() -> None:
    known = {f"{case}.{look}.txt" for case, look in TABLES} | {f"{case}.{form}" for case, form in DOCUMENTS}
    assert {file.name for file in GOLDEN.iterdir()} == known
