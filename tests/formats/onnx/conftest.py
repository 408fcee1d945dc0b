"""Sample models exported once for all tests, and the `wheels` group, which runs on request only."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Return the ONNX file that an exporter makes of a sample model."""
    from sample_models import make
    from tests.formats.onnx.exported import export

    folder = tmp_path_factory.mktemp("exported")

    @cache
    def path(name: str, exporter: str) -> Path:
        return export(make.build(name), make.MODELS[name][1], folder / f"{name}.{exporter}.onnx", exporter)

    return path


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "wheels: downloads packages, run on request with -m wheels")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "wheels" in config.getoption("markexpr"):
        return
    for item in items:
        if "wheels" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="downloads packages: ask for it with -m wheels"))
