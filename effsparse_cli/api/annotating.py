"""`annotate`: sparsity in the metadata of an ONNX model, where viewers show it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from effsparse_cli.api.measuring import measure
from effsparse_cli.api.models import LiveModel, LoadKeywords, Model, name_of, open_model
from effsparse_cli.api.pruning import build_output
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.output import Changes
from effsparse_cli.progress import step

if TYPE_CHECKING:
    from effsparse_cli.report.annotation import Annotation


def annotate(
    model: Model,
    *,
    output: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    force: bool = False,
    count_embeddings: bool = False,
    **load: Unpack[LoadKeywords],
) -> Annotation:
    """Write direct and effective sparsity into the metadata of an ONNX model, where Netron and other viewers show it.

    Each operator that uses weights gets entries such as `effsparse.effective_sparsity`, and so does the model. Earlier
    annotations are replaced; nothing else in the file changes.

    Examples:
        >>> effsparse.annotate("model.onnx", output="annotated.onnx")
    """
    source = open_model(model, None, load)
    if isinstance(source, LiveModel) or source.format != "onnx":
        raise UsageError(
            f"{name_of(source)} is not an ONNX file, and no other format has metadata that viewers show: export the "
            "model to ONNX. Model Explorer also shows exported programs: effsparse report --format model-explorer."
        )
    written = build_output(source, output, in_place=in_place, force=force)
    if written is None:
        raise UsageError("nothing to write: add -o FILE or --in-place.")
    from effsparse_cli.report.annotation import Annotation, describe_call, describe_model

    graph, report = measure(source, count_embeddings=count_embeddings)
    metadata = {call: describe_call(report, layers) for call, layers in graph.calls.items()}
    with step(f"writing {written.path.name}"):
        source.write(written, Changes(metadata={(): describe_model(report), **metadata}))
    names = source.viewer_nodes(graph.calls) or {}
    operators = tuple((names[call][1] if call in names else call[-1], graph.calls[call]) for call in graph.calls)
    return Annotation(model=report.model, written=str(written.path), operators=operators, analysis=report)
