"""The result of `effsparse.analyze` and of `effsparse report`: an analysis that can print itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from effsparse_cli.analysis.results import Analysis
from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.columns import build_columns
from effsparse_cli.report.analysis.meaning import assumptions, headline, meaning
from effsparse_cli.report.analysis.page import AnalysisPage, build_page
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result
from effsparse_cli.report.tables import Table

if TYPE_CHECKING:
    from effsparse_cli.report.curves import Curves


@dataclass(frozen=True, repr=False)
class Report(Result, Analysis):
    """Direct and effective sparsity of a model. `model` is its name."""

    model: str = "model"
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = FORMATS

    def render(
        self,
        format: str = "table",
        *,
        layers: Sequence[str] = (),
        sort: str = "order",
        depth: int | None = None,
        columns: Sequence[str] = (),
        curve: Curves | None = None,
    ) -> str:
        """Return the text that `effsparse report` prints with these options. Only HTML shows the `curve`."""
        return self.render_page(self.page(layers, sort, depth=depth, columns=columns, curve=curve), format)

    def to_html(self, *, curve: Curves | None = None) -> str:
        """Return a page with the network and images of its layers, if `pictures=True` was passed to `analyze`. `curve`
        is a result of `effsparse.curve`, to show what further pruning would do."""
        return self.render("html", curve=curve)

    def page(
        self,
        layers: Sequence[str] = (),
        sort: str = "order",
        *,
        depth: int | None = None,
        columns: Sequence[str] = (),
        curve: Curves | None = None,
    ) -> AnalysisPage:
        """Select layers by name patterns, group and sort them, for a renderer."""
        return build_page(self.model, self, layers, sort, self.look, depth=depth, columns=columns, curve=curve)

    def table(self) -> Table:
        columns = build_columns(self.page()).values()
        return Table(
            title=f"{self.model} ({'; '.join(headline(self))})",
            titles=[column.title for column in columns],
            rows=list(zip(*(column.cells for column in columns), strict=True)),
            total=[column.total for column in columns],
            sentences=meaning(self),
            notes=assumptions(self),
        )

    def _repr_html_(self) -> str:
        from effsparse_cli.report.html.compact import render_report

        return render_report(self.page(), self.table())
