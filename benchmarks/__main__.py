"""Measure everything that the project claims about speed and memory: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import growth, page, ratios, startup, step, table
from benchmarks.machine import available_gib, machine
from benchmarks.models import CASES
from benchmarks.results import Results, read

QUICK = ("lenet", "resnet18")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    results = Results(machine())
    if options.add and options.json.exists():
        results = read(json.loads(options.json.read_text(encoding="utf-8")))
    for part in options.parts:
        PARTS[part](results, options)
        _save(results, options)


def _ratios(results: Results, options: argparse.Namespace) -> None:
    sparsities = (0.0, 0.9) if options.quick else ratios.SPARSITIES
    effort = (
        ratios.Effort(repeats=5, seconds=1.0, saturated=False)
        if options.quick
        else ratios.Effort(seconds=options.seconds)
    )
    for case in (CASES[key] for key in options.models):
        if available_gib() < case.gib:
            print(
                f"{case.name} is skipped: it needs {case.gib:g} GiB, {available_gib():.1f} GiB are free",
                file=sys.stderr,
            )
            continue
        results.rows = [row for row in results.rows if row.model != case.name]
        for row in ratios.measure(case, sparsities, effort):
            print(table.ratios([row]).splitlines()[-1], file=sys.stderr, flush=True)
            results.rows.append(row)
        _save(results, options)
    _show(table.ratios(results.rows))


def _growth(results: Results, options: argparse.Namespace) -> None:
    largest = 10**7 if options.quick else options.largest
    sizes = [size for size in growth.SIZES if size <= largest]
    rounds = 1 if options.quick else growth.ROUNDS
    results.deeper, results.wider = growth.measure(sizes, [growth.deeper, growth.wider], rounds)
    _show(table.growth(results.deeper))
    _show(table.growth(results.wider))


def _startup(results: Results, options: argparse.Namespace) -> None:
    results.startup = list(startup.measure(3 if options.quick else 15))
    _show(table.startup(results.startup))


def _step(results: Results, options: argparse.Namespace) -> None:
    results.step = step.measure("resnet18", 8) if options.quick else step.measure()
    _show(table.step(results.step))


PARTS = {"ratios": _ratios, "growth": _growth, "startup": _startup, "step": _step}


def _save(results: Results, options: argparse.Namespace) -> None:
    """Save after every long step, so that an interrupted run keeps its results."""
    if options.json:
        options.json.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")
    if options.page:
        options.page.write_text(page.write(results), encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=CASES, help="models to measure [default: all; two with --quick]")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="measurements [default: all]")
    parser.add_argument(
        "--largest",
        type=float,
        default=3e9,
        help="largest number of weights of the growth [default: 3e9, 6 GB on disk]",
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="time limit for each cell of the table [default: 10]"
    )
    parser.add_argument("--quick", action="store_true", help="small models, few sizes and rounds; takes a minute")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--page", type=Path, help="also write the docs page to this file")
    parser.add_argument("--add", action="store_true", help="add to the results in the JSON file")
    options = parser.parse_args(arguments)
    if options.add and not options.json:
        parser.error("--add needs --json, the file to add to")
    options.models = options.models or (QUICK if options.quick else list(CASES))
    return options


def _show(text: str) -> None:
    print(f"{text}\n", flush=True)


if __name__ == "__main__":
    main()
