"""Errors while following what a file describes are damage of the file, not bugs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from effsparse_cli.errors import EffsparseError, LoadError

EXPORT_AGAIN = "Export it again."


@contextmanager
def damage_on_error(path: Path, advice: str = "Download it again.") -> Iterator[None]:
    """Turn any other error into one that says that the file is damaged."""
    try:
        yield
    except EffsparseError:
        raise
    except (Exception, RecursionError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        detail = f"{type(error).__name__}: {reason[:200]}" if reason else type(error).__name__
        raise LoadError(f"{path} is damaged: its content is invalid ({detail}). {advice}") from error
