"""`effsparse compact`: remove dead channels and neurons, and write a smaller model with the same outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import writing as w
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.commands.shared.project import find_model
from effsparse_cli.report.compaction import Compaction

EXAMPLES = """\
Examples:
effsparse compact pruned.onnx -o small.onnx
effsparse compact pruned.pt -o small.pt --input-shape 1,3,32,32
effsparse compact pruned.pt2 -o small.onnx
"""

Output = Annotated[
    Path | None, o.option("--output", "-o", help="Write the new model, as .onnx or .pt.", panel=o.WRITE, metavar="FILE")
]
Format = Annotated[str, o.format_choice(Compaction.FORMATS)]


@with_load_arguments
def compact(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
    output: Output = None,
    force: w.Force = False,
    format: Format = "table",
) -> None:
    """Remove dead channels and neurons: a smaller model with the same outputs."""
    from effsparse_cli.api.compacting import compact as compact_model

    done = compact_model(find_model(model, load_arguments), output=output, force=force)
    emit(done.render(format), None)
