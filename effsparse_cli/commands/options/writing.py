"""Options for writing a model, shared by the commands that change one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from effsparse_cli.commands.options.common import option
from effsparse_cli.commands.options.panels import WRITE

Output = Annotated[Path | None, option("--output", "-o", help="Write the new model.", panel=WRITE, metavar="FILE")]
InPlace = Annotated[bool, option("--in-place", help="Overwrite the model file.", panel=WRITE)]
MasksOnly = Annotated[bool, option("--masks-only", help="Write only masks, as .safetensors or .npz.", panel=WRITE)]

Force = Annotated[bool, option("--force", help="Replace an existing model.", panel=WRITE)]
