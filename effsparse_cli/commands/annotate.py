"""`effsparse annotate`: sparsity in the metadata of an ONNX model, where viewers show it."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import writing as w
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.commands.shared.project import find_model
from effsparse_cli.report.annotation import Annotation

EXAMPLES = """\
Examples:
effsparse annotate model.onnx -o annotated.onnx
effsparse annotate model.onnx --masks masks.safetensors -o annotated.onnx
effsparse annotate model.onnx --in-place
"""

Format = Annotated[str, o.format_choice(Annotation.FORMATS)]


@with_load_arguments
def annotate(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
    output: w.Output = None,
    in_place: w.InPlace = False,
    force: w.Force = False,
    format: Format = "table",
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Write sparsity into the metadata of an ONNX model, for viewers such as Netron."""
    from effsparse_cli.api.annotating import annotate as annotate_model

    done = annotate_model(
        find_model(model, load_arguments),
        output=output,
        in_place=in_place,
        force=force,
        count_embeddings=count_embeddings,
    )
    emit(done.render(format), None)
