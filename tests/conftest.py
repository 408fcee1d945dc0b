"""Options, markers and summary lines that all tests share."""

from __future__ import annotations

import os
from collections import Counter
from multiprocessing import forkserver

import pytest
from hypothesis import settings

from effsparse_cli.api.studying import PRELOADED as FOR_STUDIES
from effsparse_cli.commands.steps.check_model import PRELOADED as FOR_CHECKS
from effsparse_cli.commands.steps.check_model import PRELOADED_FOR_PAGES as FOR_PAGES

# One thread per process, here and in the commands that tests start: there is a test process per core.
# torch and numpy read this when they are imported.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# How long an example takes depends on the machine, not on the code.
settings.register_profile("effsparse", deadline=None)
settings.load_profile("effsparse")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the long witness runs too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: thousands of generated cases, run on request with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))


@pytest.fixture(scope="session", autouse=True)
def process_server() -> None:
    """Start the server that forks worker processes, with all that they may import. It serves all tests of this process,
    and would otherwise have only the modules of the first one that needs it."""
    forkserver.set_forkserver_preload([*FOR_STUDIES, *FOR_CHECKS, *FOR_PAGES])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONSAFEPATH", "1")
        forkserver.ensure_running()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the sums of what witnesses recorded with `record_property("witness: ...", number)`."""
    counted: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                counted.update({k: n for k, n in report.user_properties if k.startswith("witness: ")})
    if counted:
        terminalreporter.section("witnesses")
        for name, number in sorted(counted.items()):
            terminalreporter.line(f"{name.removeprefix('witness: ')}: {number:,}")
