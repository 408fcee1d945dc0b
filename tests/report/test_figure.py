"""Plots are written to any kind of path, and their axes have readable numbers."""

from __future__ import annotations

from pathlib import Path

import effsparse

SAMPLE = Path(__file__).parents[2] / "sample_models" / "figure1.pt"


def test_log_axes_have_plain_numbers(tmp_path: Path) -> None:
    """Names are never parsed as formulas, so powers of ten, which are formulas, would show their source."""
    path = tmp_path / "plot.svg"
    for result in (effsparse.curve(SAMPLE, points=3), effsparse.quotas(SAMPLE, target=0.5)):
        result.plot(str(path))
        text = path.read_text(encoding="utf-8")
        assert "mathdefault" not in text
        assert "<!-- 2 -->" in text
