"""Plots are written to any kind of path, and their axes have readable numbers."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import effsparse
from effsparse_cli.errors import WriteError
from effsparse_cli.report.figure import _tick_label, build_figure, save_figure

SAMPLE = Path(__file__).parents[2] / "sample_models" / "figure1.pt"


def test_log_axes_have_plain_numbers(tmp_path: Path) -> None:
    """Names are never parsed as formulas, so powers of ten, which are formulas, would show their source."""
    path = tmp_path / "plot.svg"
    for result in (effsparse.curve(SAMPLE, points=3), effsparse.quotas(SAMPLE, target=0.5)):
        result.plot(str(path))
        text = path.read_text(encoding="utf-8")
        assert "mathdefault" not in text
        assert "<!-- 2 -->" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.25, "2.25"), (2.0, "2"), (9.999999999, "10"), (101.25, "101"), (0.002, "0.002"), (1e6, "1,000,000")],
)
def test_ticks_that_differ_have_different_labels(value: float, text: str) -> None:
    assert _tick_label(value, None) == text


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_a_full_disk_is_an_error_in_every_format(suffix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    figure, _ = build_figure()
    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(WriteError, match="No space left on device"):
        save_figure(figure, tmp_path / f"plot.{suffix}")
    assert not list(tmp_path.iterdir())
