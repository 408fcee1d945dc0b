"""Cases by number: a folder with an edited file, and a command that reads it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from benchmarks.structure.corpus import Sample, samples

REPORT = "out.json"


@dataclass(frozen=True)
class Case:
    seed: int
    number: int
    format: str
    command: str
    files: dict[str, bytes]
    arguments: tuple[str, ...]

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def make(seed: int, number: int) -> Case:
    """Return the case of a seed and a number. Formats take turns; commands and edits are random."""
    dice = random.Random(f"{seed}/{number}")
    known = samples()
    kind = list(known)[number % len(known)]
    sample = known[kind]
    command = dice.choice(sample.only)
    name, edit = dice.choice(sample.edits)
    edited = edit(sample.files[name], dice)
    return _case(seed, number, kind, command, {**sample.files, name: edited})


def whole() -> list[Case]:
    """Return every unedited sample with every command that reads it."""
    return [
        _case(-1, i, kind, command, dict(sample.files))
        for i, (kind, sample, command) in enumerate(
            (kind, sample, command) for kind, sample in samples().items() for command in sample.only
        )
    ]


def _case(seed: int, number: int, kind: str, command: str, files: dict[str, bytes]) -> Case:
    sample = samples()[kind]
    if command == "diff":
        files |= {f"whole/{path}": content for path, content in sample.files.items()}
    return Case(seed, number, kind, command, files, (command, *_arguments(sample, command), *sample.options))


def _arguments(sample: Sample, command: str) -> tuple[str, ...]:
    model = (sample.model,) if sample.model else ()
    suffix = Path(sample.model).suffix
    match command:
        case "report":
            return (*model, "--format", "json", "-o", REPORT)
        case "prune":
            return (*model, "--target", "0.6", "-o", f"out{suffix}")
        case "repair":
            return (*model, "-o", f"out{suffix}")
        case "compact":
            return (*model, "-o", "out.onnx")
        case "check":
            return (*model, "--min-effective", "0.1", "--jobs", "1", "--format", "json", "-o", REPORT)
        case _:
            return (*model, f"whole/{sample.model}", "--format", "json", "-o", REPORT)
