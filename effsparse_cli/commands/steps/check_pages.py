"""The pages that `effsparse check --format html -o check.html` writes beside its own: the report of each model, in the
folder `check_files`.

Workers write them to a hidden folder. They are moved at the end, when all files that the run reads are known.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from effsparse_cli import files
from effsparse_cli.checks.verdicts import Verdict
from effsparse_cli.commands.steps.check_model import CheckTask
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs, check_target, remove_leftovers, temporary_path

UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST = 100


@dataclass(frozen=True)
class ModelPages:
    """`names` has the file name of each model's page; `option` says in errors which option they belong to."""

    folder: Path
    staging: Path
    names: dict[str, str]
    option: str

    def assign(self, tasks: Sequence[CheckTask]) -> list[CheckTask]:
        """Return tasks that also write the model's page."""
        return [replace(task, page=self.staging / self.names[str(task.model)]) for task in tasks]

    def publish(self, verdicts: Sequence[Verdict]) -> dict[str, str]:
        """Move the pages of measured models to their folder, and return their addresses relative to the check's page,
        by model."""
        done = [verdict.model for verdict in verdicts if verdict.analysis is not None]
        for model in done:
            if os.path.lexists(target := self.folder / self.names[model]):
                check_target(target, self.option)
        try:
            if done:
                self.folder.mkdir(exist_ok=True)
            for model in done:
                os.replace(self.staging / self.names[model], self.folder / self.names[model])
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be written: {error.strerror or error}.") from error
        return {model: quote(os.fsencode(f"{self.folder.name}/{self.names[model]}")) for model in done}


@contextmanager
def plan_pages(output: Path, models: Sequence[Path], inputs: Sequence[Path | None]) -> Iterator[ModelPages]:
    """Yield the pages of a run, and remove those that are not published. What cannot be written is an error before any
    work is done."""
    real = Path(os.path.realpath(output))
    pages = ModelPages(
        folder=real.with_name(f"{real.stem}_files"),
        staging=temporary_path(real).with_suffix(""),
        names=name_pages(models),
        option=f"-o {output}: the page",
    )
    _check_targets(pages, inputs)
    remove_leftovers(real.parent)
    try:
        pages.staging.mkdir()
    except OSError as error:
        raise UsageError(f"-o {output} cannot be written: {error.strerror or error}. Choose another path.") from error
    try:
        yield pages
    finally:
        shutil.rmtree(pages.staging, ignore_errors=True)


def name_pages(models: Sequence[Path]) -> dict[str, str]:
    """Return a file name for the page of each model: made from its path, safe in any file system, and unique."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for model in models:
        stem = UNSAFE.sub("-", model.as_posix())[-LONGEST:].strip("-.") or "model"
        number, name = 1, stem
        while name.casefold() in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name.casefold())
        names[str(model)] = f"{name}.html"
    return names


def _check_targets(pages: ModelPages, inputs: Sequence[Path | None]) -> None:
    if os.path.lexists(pages.folder) and not os.path.isdir(pages.folder):
        raise UsageError(f"{pages.option}s of models go to {pages.folder}, which is a file. Choose another path.")
    known = {files.identity_of(path) for path in inputs if path is not None}
    for model, name in pages.names.items():
        target, option = pages.folder / name, f"{pages.option} of {model}"
        if os.path.lexists(target) and files.identity_of(target) in known:
            raise UsageError(f"{option} {target} is an input, and inputs are never overwritten.")
        if os.path.lexists(target):
            check_outputs({option: target})
