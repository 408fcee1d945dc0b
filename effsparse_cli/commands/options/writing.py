"""Options for writing a model, shared by the commands that change one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from effsparse_cli.commands.options.common import WRITE, option
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.output import FORMS, ModelOutput

Output = Annotated[Path | None, option("--output", "-o", help="Write the new model.", panel=WRITE, metavar="FILE")]
InPlace = Annotated[bool, option("--in-place", help="Overwrite the model file.", panel=WRITE)]
MasksOnly = Annotated[bool, option("--masks-only", help="Write only masks, as .safetensors or .npz.", panel=WRITE)]


def build_output(
    path: Path, output: Path | None, *, in_place: bool, masks_only: bool, form: str = FORMS[0]
) -> ModelOutput | None:
    """Return where and how to write, None if nothing is written."""
    if in_place and output is not None:
        raise UsageError("use either --in-place or -o FILE, not both.")
    if output is None and not in_place:
        if masks_only or form != FORMS[0]:
            unused = "--masks-only" if masks_only else "--form"
            raise UsageError(f"{unused} has no effect, because nothing is written: add -o FILE.")
        return None
    return ModelOutput(path=output or path, in_place=in_place, form=form, masks_only=masks_only)
