"""An ONNX model is repaired in memory: a file enters, what changes of it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from effsparse_cli.folding.onnx.subject import OnnxModel
from effsparse_cli.folding.results import Repaired
from effsparse_cli.folding.rounds import repair
from effsparse_cli.formats.onnx.file import open_model
from effsparse_cli.formats.onnx.proto.validity import malformed_is_load_error
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.primitives import Bools


def repair_onnx(
    path: Path, options: LoadOptions, count_embeddings: bool = False, start: Mapping[str, Bools] | None = None
) -> tuple[Repaired, OnnxModel]:
    """The model as it is afterwards holds the tensors that have changed, and the biases that were made; `start` are
    masks to apply first."""
    model = open_model(path)
    with malformed_is_load_error(path, model):
        subject = OnnxModel(model, path, options)
        return repair(subject, count_embeddings, start), subject
