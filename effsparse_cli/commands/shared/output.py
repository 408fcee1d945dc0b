"""Write the text of a command to standard output or to a file."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.report.escape import printable
from effsparse_cli.report.look import PIPE_WIDTH, Look


def show(result: Any, format: str, file: Path | None) -> None:
    """Write a result in a format."""
    emit(look_in(result, file).render(format), file)


def look_in(result: Any, file: Path | None) -> Any:
    """Return a result as it looks in a file: with a fixed width and no colours."""
    return replace(result, look=Look(PIPE_WIDTH)) if file is not None and hasattr(result, "look") else result


def note(text: str) -> None:
    """Print a note to standard error. Errors are ignored: a full disk behind it must not end a run."""
    with suppress(OSError):
        print(f"note: {printable(text)}", file=sys.stderr)


def emit(text: str, file: Path | None) -> None:
    """Write text to a file, or to standard output."""
    if file is not None:
        with replacing(file) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        return
    # Escape characters that the terminal's encoding does not have.
    stdout = getattr(sys.stdout, "rich_proxied_file", sys.stdout)  # while progress is shown
    encoding = stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        raise UsageError(f"standard output cannot be written: {error.strerror or error}.") from error
