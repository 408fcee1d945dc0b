"""Run the cases of a seed and print a summary: exit codes by format and command, failures grouped by cause."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.structure import cases, server
from benchmarks.structure.cases import Case
from benchmarks.structure.corpus import COMMANDS, samples
from benchmarks.structure.server import Result


def main(seed: int, numbers: Iterable[int], *, jobs: int, folder: Path | None, whole: bool) -> int:
    """Run the cases and print the summary; return 1 if any failed."""
    if folder is not None:
        keep(seed, numbers, folder)
        return 0
    results = fuzz(cases.whole() if whole else (cases.make(seed, number) for number in numbers), jobs)
    print(summary(results))
    if whole:
        refused = [result for result in results if result.end != "exit 0"]
        for result in refused:
            print(f"{result.end}: effsparse {shlex.join(result.case.arguments)} ({result.case.format})")
        return 1 if refused else 0
    return 1 if any(result.problem for result in results) else 0


def fuzz(all_cases: Iterable[Case], jobs: int) -> list[Result]:
    """Return the result of each case, in order."""
    samples()
    server.prepare()
    done: list[Result] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for result in server.run_all(all_cases, Path(folder), jobs):
            done.append(result)
            if len(done) % 200 == 0:
                wrong = sum(bool(one.problem) for one in done)
                print(f"{len(done):,} files, {time.monotonic() - start:.0f} s, {wrong} failed", file=sys.stderr)
    return sorted(done, key=lambda result: result.case.number)


def summary(results: list[Result]) -> str:
    ends = sorted({result.end for result in results})
    lines = [f"{len(results):,} edited files: " + _counted(results, ends), ""]
    for title, groups in (("format", list(samples())), ("command", list(COMMANDS))):
        lines.append(f"| {title} | files | {' | '.join(ends)} | wrong |")
        lines.append("|---" * (len(ends) + 3) + "|")
        for group in groups:
            own = [result for result in results if getattr(result.case, title) == group]
            counts = Counter(result.end for result in own)
            cells = [group, len(own), *(counts[end] for end in ends), sum(bool(result.problem) for result in own)]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        lines.append("")
    return "\n".join([*lines, *failures(results)])


def failures(results: list[Result]) -> list[str]:
    """Return one line per cause, with its first case and the number of cases."""
    causes: dict[str, list[Result]] = {}
    for result in results:
        if result.problem:
            causes.setdefault(re.sub(r"\d{3,}|0x\w+|'[^']*'", "_", result.problem), []).append(result)
    lines = []
    for those in sorted(causes.values(), key=len, reverse=True):
        case = those[0].case
        others = ", ".join(str(one.case.number) for one in those[1:8])
        lines += [
            f"{len(those)} x {those[0].problem}",
            f"    {case.format}: effsparse {shlex.join(case.arguments)}",
            f"    --structure --seed {case.seed} --first {case.number} --cases 1"
            + (f"; also {others}" if others else ""),
        ]
    return lines


def keep(seed: int, numbers: Iterable[int], folder: Path) -> None:
    """Write the files of cases instead of running them."""
    for number in numbers:
        case = cases.make(seed, number)
        case.write(folder / str(number))
        print(f"cd {folder / str(number)} && effsparse {shlex.join(case.arguments)}")


def _counted(results: list[Result], ends: list[str]) -> str:
    counts = Counter(result.end for result in results)
    return ", ".join(f"{end} {counts[end]:,}" for end in ends)
