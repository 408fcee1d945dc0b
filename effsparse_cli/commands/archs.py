"""`effsparse archs`: list the built-in architectures."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.shared.listing import FORMATS, render_listing
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.formats.architectures import ARCHITECTURES

EXAMPLES = """\
Examples:
effsparse archs
effsparse report checkpoint.pth --arch resnet50
effsparse report checkpoint.pth --arch torchvision.models:resnet18
"""

Format = Annotated[str, o.format_choice(FORMATS)]


def archs(format: Format = "table") -> None:
    """List built-in architectures (--arch)."""
    rows = [
        {"name": name, "input shape": list(arch.shape), "weights": arch.weights, "about": arch.about}
        for name, arch in ARCHITECTURES.items()
    ]
    if format == "json":
        rows = [{name.replace(" ", "_"): value for name, value in row.items()} for row in rows]
    emit(render_listing(format, "architectures", rows), None)
