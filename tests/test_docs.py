"""Every path and dotted name of the package that the documents for contributors mention exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("CONTRIBUTING.md", "docs/architecture.md")
PATHS = re.compile(r"(?:effsparse_cli|tests|benchmarks|docs|sample_models)/[\w/.]*\w")
NAMES = re.compile(r"effsparse_cli(?:\.\w+)+")
METHODS = re.compile(r"`(OnnxFile|TorchFile|TorchModel)\.(\w+)`")


def find(pattern: re.Pattern[str]) -> list[str]:
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS)
    return sorted({match[0] for match in pattern.finditer(text)})


@pytest.mark.parametrize("path", find(PATHS))
def test_paths_exist(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", find(NAMES))
def test_names_exist(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert hasattr(import_module(module), attribute)


def test_methods_exist() -> None:
    classes = {
        "OnnxFile": "effsparse_cli.formats.onnx.model_file",
        "TorchFile": "effsparse_cli.formats.torch.files.torch_file",
        "TorchModel": "effsparse_cli.folding.torch.model",
    }
    for mention in find(METHODS):
        name, method = mention.strip("`").split(".")
        assert hasattr(getattr(import_module(classes[name]), name), method), mention
