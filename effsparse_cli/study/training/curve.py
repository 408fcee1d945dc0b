"""The training curve as CSV: one line per epoch."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from effsparse_cli.formats.writing.atomic import replacing

NAME = "curve.csv"
COLUMNS = (
    "phase",
    "epoch",
    "loss",
    "train_accuracy",
    "test_accuracy",
    "direct_compression",
    "effective_compression",
)


def write_curve(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(folder / NAME) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")
