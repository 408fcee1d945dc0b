"""What all results of the library can do: print themselves as a table, and convert to JSON, a dict, a pandas data frame
and HTML for notebooks. What is printed from Python names arguments where the command line names options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar, Self

from effsparse_cli.arguments import to_arguments
from effsparse_cli.errors import UsageError
from effsparse_cli.report.tables import Table, to_markdown, to_text

Formats = Mapping[str, Callable[[Any], str]]


class Result:
    """Base class of results. `print(result)` shows its table, as does a notebook.

    `FORMATS` are those of the command that prints the result. `RECORDS` names the list in the JSON document that
    becomes the rows of a data frame.
    """

    FORMATS: ClassVar[Formats] = {}
    RECORDS: ClassVar[str] = "layers"

    @classmethod
    def of(cls, data: Any, **more: Any) -> Self:
        """Return a result with the fields of `data`, a dataclass that this class extends."""
        return cls(**{each.name: getattr(data, each.name) for each in fields(data)}, **more)

    def table(self) -> Table:
        """Return the table that the result prints."""
        raise NotImplementedError

    def render(self, format: str = "table") -> str:
        """Return the text that the command prints with `--format`."""
        return self.render_page(self, format)

    def render_page(self, page: Any, format: str) -> str:
        if format not in self.FORMATS:
            raise UsageError(f"--format {format}: use one of {', '.join(self.FORMATS)}")
        return self.FORMATS[format](page)

    def to_json(self) -> str:
        return self.render("json")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as Python objects."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def to_frame(self) -> Any:
        """Return one row per layer (or point, or finding) as a pandas data frame. Nested keys are joined by dots."""
        return build_frame(self.to_dict()[self.RECORDS])

    def __str__(self) -> str:
        return to_arguments(self.render(next(iter(self.FORMATS)))).rstrip("\n")

    def __repr__(self) -> str:
        totals = getattr(self, "totals", None)
        measured = f": direct {totals.direct_sparsity:.4%}, effective {totals.effective_sparsity:.4%}" if totals else ""
        return f"<{type(self).__name__} of {getattr(self, 'model', 'models')}{measured}>"

    def _repr_html_(self) -> str:
        from effsparse_cli.report.html.compact import render_table

        return render_table(self.table())


def render_table(result: Any) -> str:
    """Return the result's table for its terminal."""
    return to_text(result.table(), result.look)


def render_markdown(result: Any) -> str:
    return to_markdown(result.table())


def build_frame(records: list[dict[str, Any]]) -> Any:
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise UsageError("to_frame() needs pandas, which is not installed: pip install pandas") from error
    return pandas.json_normalize(records)
