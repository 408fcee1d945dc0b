"""Write the text of a command to standard output or to a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import get_terminal_size

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.report.escape import printable
from effsparse_cli.report.look import Look

PIPE_WIDTH = 120


def look(file: Path | None) -> Look:
    """Return what the output can display. Pipes and files have a fixed width and no colours."""
    if file is not None:
        return Look(PIPE_WIDTH)
    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return Look(get_terminal_size((PIPE_WIDTH, 24)).columns if terminal else PIPE_WIDTH, colour, unicode)


def note(text: str) -> None:
    """Print a note to standard error."""
    print(f"note: {printable(text)}", file=sys.stderr)


def emit(text: str, file: Path | None) -> None:
    """Write text to a file, or to standard output."""
    if file is not None:
        with replacing(file) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        return
    # Escape characters that the terminal's encoding does not have.
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        raise UsageError(f"standard output cannot be written: {error.strerror or error}.") from error
