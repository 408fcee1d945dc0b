"""Find and read the files of a data set, with errors that say what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from effsparse_cli import files
from effsparse_cli.errors import EffsparseError, LoadError, first_line


def find_file(folder: str | Path, names: Sequence[str]) -> Path:
    """Return the first of some files that exists in a folder."""
    _check_folder(folder)
    for name in names:
        if Path(folder, name).is_file():
            return files.note_read(Path(folder, name))
    images = ' For folders of images, use kind = "images".' if Path(folder, "train").is_dir() else ""
    raise LoadError(f"{folder} has no {names[0]}: it is not the folder of this data set.{images}")


def find_folder(path: str, names: Sequence[str]) -> Path:
    """Return the folder itself, or the first of some folders in it."""
    _check_folder(path)
    return next((Path(path, name) for name in names if Path(path, name).is_dir()), Path(path))


def _check_folder(path: str | Path) -> None:
    if not Path(path).is_dir():
        raise LoadError(
            f"the data {path} is not a folder." if Path(path).exists() else f"the data folder {path} does not exist."
        )


@contextmanager
def reading(path: Path, advice: str = "Download it again.") -> Iterator[None]:
    """Turn what a damaged file raises into an error that names it, and says what to do."""
    try:
        yield
    except EffsparseError:
        raise
    except Exception as error:
        raise LoadError(f"{path} cannot be read: {first_line(error, 200).rstrip('.')}. {advice}") from error
