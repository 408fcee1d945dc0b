"""The result of `effsparse.check` and of `effsparse check`: verdicts that can print themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from effsparse_cli.checks.verdicts import Verdicts
from effsparse_cli.report.findings import FORMATS
from effsparse_cli.report.findings.markdown import result_text
from effsparse_cli.report.findings.text import sparsities, summary, title
from effsparse_cli.report.result import Formats, Result
from effsparse_cli.report.tables import Table


@dataclass(frozen=True, repr=False)
class CheckReport(Result, Verdicts):
    FORMATS: ClassVar[Formats] = FORMATS
    RECORDS: ClassVar[str] = "models"

    @property
    def passed(self) -> bool:
        return self.code == 0

    def to_html(self) -> str:
        """Return the page of `effsparse check --format html`, without links to pages of the models."""
        return self.render("html")

    def table(self) -> Table:
        rows = [[verdict.model, *sparsities(verdict), result_text(verdict).replace("*", "")] for verdict in self.models]
        notes = [f"{v.model}: {v.problem}" for v in self.models if v.problem]
        notes += [f"{v.model}: {title(finding, self)}: {finding.text}" for v in self.models for finding in v.findings]
        return Table(title=summary(self), titles=["model", "direct", "effective", "result"], rows=rows, notes=notes)

    def _repr_html_(self) -> str:
        from effsparse_cli.report.html.compact import render_check

        return render_check(self)
