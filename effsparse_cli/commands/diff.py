"""`effsparse diff`: compare two models layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from effsparse_cli.api.models import FileToOpen
from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import show
from effsparse_cli.commands.shared.pages import Open, check_page, open_page
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.report.comparison import Difference

EXAMPLES = """\
Examples:
effsparse diff before.pt after.pt
effsparse diff model.pt2 model.onnx --exit-code
effsparse diff v1.onnx v2.onnx --format markdown -o diff.md
effsparse diff v1.onnx v2.onnx --format html -o diff.html --open
"""

Before = Annotated[Path, typer.Argument(help="First model.", metavar="A", show_default=False)]
After = Annotated[Path, typer.Argument(help="Second model.", metavar="B", show_default=False)]
Format = Annotated[str, o.format_choice(Difference.FORMATS)]
ExitCode = Annotated[bool, o.option("--exit-code", help="Exit with code 1 if the models differ.", panel=o.OUTPUT)]


@with_load_arguments
def diff(
    before: Before,
    after: After,
    load_arguments: LoadArguments,
    format: Format = "table",
    output: o.Output = None,
    open: Open = False,
    exit_code: ExitCode = False,
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Compare the connections of two models."""
    from effsparse_cli.api.measuring import diff as compare

    check_outputs({"-o": output}, [before, after, load_arguments.masks])
    check_page(format, output, {"--open": open})
    options = load_arguments.options()
    files = (FileToOpen(model, options) for model in (before, after))
    difference = compare(*files, count_embeddings=count_embeddings, pictures=format == "html")
    show(difference, format, output)
    if open:
        open_page(output)
    if exit_code and difference.differs:
        raise typer.Exit(1)
