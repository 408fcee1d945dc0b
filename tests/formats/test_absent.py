"""What is said about a model that does not exist: names of the Hub, URLs, and misspelt files."""

from __future__ import annotations

from pathlib import Path

import pytest

from effsparse_cli.formats.absent import absent_error


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("meta-llama/Llama-3.2-1B", "`hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B`"),
        ("https://huggingface.co/x/model.onnx", "https://huggingface.co/x/model.onnx is a URL"),
        ("s3://bucket/m.pt", "s3://bucket/m.pt is a URL"),
        ("folder/model.pt", "folder/model.pt does not exist"),
        ("sub/Llama-3.2-1B", "sub/Llama-3.2-1B does not exist"),
        ("sub/model.onxx", "sub/model.onxx does not exist. Did you mean sub/model.onnx?"),
    ],
)
def test_absent(path: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "model.onnx").touch()
    message = str(absent_error(Path(path)))
    assert expected in message
    assert ("download" in message) == ("download" in expected or "URL" in expected)
