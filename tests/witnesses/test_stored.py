"""Stored weights that are mixed before use: changing inactive ones does not change the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import onnx
import pytest
import torch
from onnx import ModelProto
from torch import Tensor, nn

from effsparse_cli.formats.options import LoadOptions
from tests.formats.onnx.models import read
from tests.witnesses import mixed, mixed_onnx
from tests.witnesses.stored import Subject, examine, of_module, of_onnx, thin

Record = Callable[[str, object], None]
QUICK = (
    "standardized by hand", "standardized by batch norm", "weight norm, hook", "weight norm, parametrization",
    "spectral norm, parametrization", "low rank", "scaled by its own maximum", "unknown operator",
)  # fmt: skip
QUICK_ONNX = ("standardized", "unknown operator", "low rank added", "added to itself reversed")
SEEDS = 3


def cases(every: tuple[str, ...], quick: tuple[str, ...]) -> list[object]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in every]


def witness(subjects: Iterable[Subject], record: Record) -> None:
    """Examine one network with several random weights."""
    seen = []
    for seed, subject in enumerate(subjects):
        assert not subject.computed, f"no stored tensor holds {subject.computed}"
        seen.append(examine(subject, seed))
    record("witness: 3 stored tensors, inactive changed", sum(one.inactive for one in seen))
    record("witness: 3 stored tensors, active changed singly", sum(one.tried for one in seen))
    record("witness: 3 stored tensors, active that moved the output", sum(one.moved for one in seen))


def drawn(name: str) -> Iterator[tuple[nn.Module, Tensor]]:
    for seed in range(SEEDS):
        model, x = mixed.build(name, seed)
        thin(model, (x,), seed)
        yield model, x


@pytest.mark.parametrize("name", cases(mixed.NAMES, QUICK))
def test_modules(name: str, record_property: Record) -> None:
    witness((of_module(model, (x,)) for model, x in drawn(name)), record_property)


@pytest.mark.parametrize("name", cases(tuple(mixed_onnx.WEIGHED), QUICK_ONNX))
def test_onnx_models(name: str, tmp_path: Path, record_property: Record) -> None:
    models = (mixed_onnx.build(name, seed) for seed in range(SEEDS))
    witness((of_file(model, tmp_path / "model.onnx") for model in models), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("name", mixed.NAMES)
def test_exports(name: str, tmp_path: Path, record_property: Record) -> None:
    """Export without constant folding, so that the file computes the weights as the module does."""
    file = tmp_path / "model.onnx"

    def exported(model: nn.Module, x: Tensor) -> Subject:
        try:
            program = torch.onnx.export(model.float(), (x.float(),), dynamo=True, optimize=False, verbose=False)
        except torch.onnx.OnnxExporterError:
            pytest.skip("torch cannot export this module")
        assert program is not None
        program.save(str(file))
        return of_file(onnx.load(file), file)

    witness((exported(model, x) for model, x in drawn(name)), record_property)


def of_file(model: ModelProto, path: Path) -> Subject:
    onnx.save(model, path)
    feeds, others = mixed_onnx.feeds_of(model), mixed_onnx.feeds_of(model, seed=1)
    graph, elsewhere = read(path, LoadOptions()), mixed_onnx.run(model, others)
    return of_onnx(model, graph, lambda changed: mixed_onnx.run(changed, feeds), elsewhere)
