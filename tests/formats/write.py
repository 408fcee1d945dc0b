"""Write masks into a copy of a model file, as the prune command does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from effsparse_cli.formats import LoadOptions, open_model_file
from effsparse_cli.formats.output import Changes, ModelOutput
from effsparse_cli.graph.primitives import Bools


def write_kept(
    source: Path, target: Path, kept: Mapping[str, Bools], options: LoadOptions | None = None, form: str = "zeros"
) -> None:
    open_model_file(source, options).write(ModelOutput(path=target, form=form), Changes(kept=kept))
