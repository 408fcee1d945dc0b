"""`run_study` and `read_study`: the experiments of a study file, in a folder that keeps what is finished."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.execution.choose import LOCAL, build_engine
from effsparse_cli.execution.engine import Engine, Failure, TaskProgress
from effsparse_cli.formatting import plural
from effsparse_cli.progress import Advance, step

if TYPE_CHECKING:
    from effsparse_cli.report.studies.report import StudyReport
    from effsparse_cli.study.file import Study
    from effsparse_cli.study.folder import StudyFolder
    from effsparse_cli.study.perform import Experiment, TaskEnd, Work
    from effsparse_cli.study.task_folder import TaskFolder

PRELOADED = (
    "torch",
    "torch.export",
    "torch._export",
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "effsparse_cli.formats.torch",
    "effsparse_cli.analysis.measure",
    "effsparse_cli.pruning.execute",
    "effsparse_cli.study.perform",
)
"""What every experiment imports, which takes longer than a small experiment."""
SHARES = 1000
"""Units per task in the progress over all tasks, so that the time left counts what running tasks have done."""
WAIT_SECONDS = 0.5
SECONDS_TO_APPEAR = 90
Notify = Callable[[str], None]


def run_study(
    file: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    engine: str | Engine = LOCAL,
    jobs: int | None = None,
    cpus: int = 1,
    address: str = "",
    gpus: float = 0,
    retry: bool = False,
    trust: bool = False,
    notify: Notify = lambda text: None,
    experiment: Experiment | None = None,
) -> StudyReport:
    """Run the tasks of a study file that are not finished yet, and return all results.

    `folder` is the study file's path without its suffix by default. Tasks run in local processes, by default in as
    many as there are cores, or with `engine="ray"` on the Ray cluster at an `address`; each gets a number of `cpus` and
    `gpus`. Failed tasks are recorded and skipped; `retry=True` runs only these. `trust` allows a study file that names
    code. `experiment` replaces the function that does a task.

    Examples:
        >>> study = effsparse.run_study("small.toml")  # doctest: +SKIP
        >>> study.plot("accuracy.svg")  # doctest: +SKIP
    """
    from effsparse_cli.study.file import read_study as read_file
    from effsparse_cli.study.folder import find_data_folder, open_folder
    from effsparse_cli.study.perform import Work
    from effsparse_cli.study.task_folder import FAILED, FINISHED

    if isinstance(engine, str):
        runner = build_engine(engine, address=address, jobs=jobs, cpus=cpus, gpus=gpus, threads=cpus)
    else:
        runner = engine
    path = Path(file)
    study = read_file(path)
    where = Path(folder) if folder is not None else _default_folder(path)
    if study.runs_code and not trust:
        raise UsageError(f"{path} names code to run. Add --trust if you trust this study file.")
    if experiment is None:
        _check_tasks(find_data_folder(where, study), path, runner.gpus)
    opened = open_folder(where, study, _find_recipe)
    states = {each.name: each.state() for each in opened.tasks}
    for each in opened.tasks:
        if states[each.name] == FINISHED:
            each.clean()  # a run may have been killed before it did
    if retry:
        chosen = [each for each in opened.tasks if states[each.name] == FAILED]
    else:
        chosen = [each for each in opened.tasks if states[each.name] not in (FINISHED, FAILED)]
    function = experiment or _find_experiment()
    works = [Work(each, opened.study.folder, function, each.failure() if retry else None) for each in chosen]
    _run_all(works, runner, notify)
    return _build_report(opened)


def read_study(folder: str | os.PathLike[str]) -> StudyReport:
    """Return the results of a study so far, from its folder.

    Examples:
        >>> effsparse.read_study("small").to_frame()  # doctest: +SKIP
    """
    from effsparse_cli.study.folder import read_folder

    return _build_report(read_folder(Path(folder), _find_recipe))


def _default_folder(file: Path) -> Path:
    """Return the folder of a study file, or the one that it is the copy in."""
    from effsparse_cli.study.folder import STUDY_FILE, STUDY_INDEX, TASKS

    is_copy = file.name == STUDY_FILE and any((file.parent / name).exists() for name in (STUDY_INDEX, TASKS))
    return file.parent if is_copy else file.with_suffix("")


def _check_tasks(study: Study, file: Path, gpus: float) -> None:
    """Refuse tasks that cannot run before anything is written."""
    from effsparse_cli.study.file import expand_study, locate_data
    from effsparse_cli.study.phases import check_epochs, check_task

    try:
        for task in expand_study(study, _find_recipe):
            check_task(task)
            check_epochs(task, task.recipe["epochs"])
        if gpus and task.recipe["device"] == "cpu":
            raise UsageError(f'--gpus {gpus:g}: the recipe trains on the CPU. Set device = "cuda" in [recipe].')
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
    data = locate_data(task, study.folder).data  # the same for all tasks
    if data["kind"] != "code" and not os.path.exists(data["path"]):
        raise LoadError(f"the data {data['path']} does not exist. The path of [data] is relative to {study.folder}.")


def _find_experiment() -> Experiment:
    from effsparse_cli.study.experiment import run_experiment

    return run_experiment


def _find_recipe(model: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    from effsparse_cli.study.recipes import find_recipe

    return asdict(find_recipe(model, changes))


def _run_all(works: Sequence[Work], engine: Engine, notify: Notify) -> None:
    """Run tasks until all have ended. Tasks that another process works on are looked at again when it lets go."""
    from effsparse_cli.study.task_folder import RUNNING

    modules = {work.experiment.__module__ for work in works}
    preload = (*PRELOADED, *modules) if all(name.startswith("effsparse_cli.") for name in modules) else ()
    left, waiting = list(works), False
    with step(f"running {plural(len(left), 'task')}", len(left) * SHARES, per_item=SHARES) as advance:
        while left:
            ends = _run_round(left, engine, preload, advance, notify)
            left = [work for work, end in zip(left, ends, strict=True) if end.state == RUNNING]
            if left and not waiting:
                notify(f"waiting for {plural(len(left), 'task')} of another run")
                waiting = True
            while left and all(work.folder.is_locked() for work in left):
                time.sleep(WAIT_SECONDS)


def _run_round(
    works: Sequence[Work], engine: Engine, preload: Sequence[str], advance: Advance, notify: Notify
) -> list[TaskEnd]:
    from effsparse_cli.study.perform import TaskEnd, perform
    from effsparse_cli.study.task_folder import FAILED, FINISHED, RUNNING

    shown = _Shown(advance)
    ends: dict[int, TaskEnd] = {}
    with closing(shown), closing(engine.run(works, perform, preload=preload, show=shown.show)) as outcomes:
        for position, outcome in outcomes:
            folder = works[position].folder
            if isinstance(outcome, Failure):
                folder.write_failure(outcome.reason)
                outcome = TaskEnd(FAILED, outcome.reason)
            if outcome.stop:
                lost = "Finished tasks are kept: fix this and run the same command again."
                end = "" if outcome.reason.endswith((".", "?")) else "."
                raise EffsparseError(f"the study stopped: {outcome.reason}{end} {lost}")
            if outcome.state == FINISHED and not _appears(folder):
                raise EffsparseError(
                    f"the study stopped: {folder.path} has no result of a task that another machine has finished. "
                    "Use a --folder that all machines share, under the same path."
                )
            ends[position] = outcome
            shown.end(position, counts=outcome.state != RUNNING)
            if outcome.state != RUNNING:
                reason = f": {outcome.reason}" if outcome.reason else ""
                notify(f"{folder.name} {outcome.state}{reason}")
    return [ends[i] for i in range(len(works))]


def _appears(folder: TaskFolder) -> bool:
    """Whether a finished task has a result. On network file systems, that of another machine may take a while."""
    give_up = time.monotonic() + SECONDS_TO_APPEAR
    while not folder.is_finished() and time.monotonic() < give_up:
        time.sleep(WAIT_SECONDS)
    return folder.is_finished()


class _Shown:
    """The progress within tasks: one step for each that is running, and its share of the step over all tasks."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance
        self.steps: dict[int, tuple[str, ExitStack, Advance, int]] = {}
        self.shares: dict[int, int] = {}
        self.ended: set[int] = set()

    def show(self, position: int, progress: TaskProgress) -> None:
        if position in self.ended or not progress.total:
            return
        if position in self.steps and self.steps[position][0] != progress.description:
            self._close(position)
        if position not in self.steps:
            stack = ExitStack()
            advance = stack.enter_context(step(progress.description, progress.total))
            self.steps[position] = (progress.description, stack, advance, 0)
        name, stack, advance, done = self.steps[position]
        advance(progress.done - done)
        self.steps[position] = (name, stack, advance, progress.done)
        if progress.level == 0:
            self._share(position, SHARES * progress.done // progress.total)

    def end(self, position: int, counts: bool) -> None:
        self.ended.add(position)
        self._close(position)
        self._share(position, SHARES if counts else 0)

    def _share(self, position: int, share: int) -> None:
        self.advance(share - self.shares.get(position, 0))
        self.shares[position] = share

    def _close(self, position: int) -> None:
        if position in self.steps:
            self.steps.pop(position)[1].close()

    def close(self) -> None:
        for position in list(self.steps):
            self._close(position)


def _build_report(opened: StudyFolder) -> StudyReport:
    from effsparse_cli.report.studies.record import TaskRecord
    from effsparse_cli.report.studies.report import StudyReport
    from effsparse_cli.study.task_folder import FAILED

    fields = ("model", "method", "lsq", "compression", "effective", "when", "seed", "options")
    records = []
    for each in opened.tasks:
        state = each.state()
        named = {name: getattr(each.task, name) for name in fields}
        failure = each.failure() if state == FAILED else None
        reason = failure.reason if failure else ""
        records.append(TaskRecord(name=each.name, state=state, reason=reason, result=each.result(), **named))
    return StudyReport(
        title=opened.study.title,
        folder=str(opened.path),
        tasks=tuple(records),
        strays=tuple(map(str, opened.strays)),
        runs_code=opened.study.runs_code,
    )
