"""`effsparse diff`: compare two models layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.report.comparison import FORMATS

if TYPE_CHECKING:
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.graph import Graph

EXAMPLES = """\
Examples:

effsparse diff before.pt after.pt

effsparse diff model.pt2 model.onnx --exit-code

effsparse diff v1.onnx v2.onnx --format markdown -o diff.md
"""

Before = Annotated[Path, typer.Argument(help="First model.", metavar="A", show_default=False)]
After = Annotated[Path, typer.Argument(help="Second model.", metavar="B", show_default=False)]
Format = Annotated[str, o.format_choice(FORMATS)]
ExitCode = Annotated[bool, o.option("--exit-code", help="Exit with code 1 if the models differ.", panel=o.OUTPUT)]


@with_load_arguments
def diff(
    before: Before,
    after: After,
    load_arguments: LoadArguments,
    format: Format = "table",
    output: o.Output = None,
    exit_code: ExitCode = False,
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Compare the connections of two models."""
    check_outputs({"-o": output}, [before, after, load_arguments.masks])
    options = load_arguments.options()
    graphs = [_read(model, options) for model in (before, after)]
    with progress("measuring"):
        from effsparse_cli.comparison.compare import compare

        comparison = compare(str(before), graphs[0], str(after), graphs[1], count_embeddings=count_embeddings)
    emit(FORMATS[format](comparison), output)
    if exit_code and comparison.differs:
        raise typer.Exit(1)


def _read(model: Path, options: LoadOptions) -> Graph:
    with progress(f"reading {model.name}"):
        from effsparse_cli.analysis.sizes import open_graph
        from effsparse_cli.formats import open_model_file

        return open_graph(open_model_file(model, options))[0]
