"""Code that a user names: what is wrong with it is an error that names the option."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.imports import import_object


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_names_may_have_parts() -> None:
    assert import_object("collections:OrderedDict", "--arch", "") is OrderedDict
    assert import_object("collections:OrderedDict.fromkeys", "--arch", "")([1]) == {1: None}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
        ("raise RuntimeError('operator torchvision::nms does not exist')", "RuntimeError: operator torchvision::nms"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def", "SyntaxError"),
    ],
)
def test_a_module_that_fails(folder: Path, source: str, reason: str) -> None:
    name = f"failing_{abs(hash(source))}"
    (folder / f"{name}.py").write_text(source)
    with pytest.raises(UsageError, match=rf"--loss {name}:make: {name} cannot be imported: {reason}.* Run the command"):
        import_object(f"{name}:make", "--loss", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("collections", "--arch collections: use package.module:name"),
        ("collections:", "--arch collections:: use package.module:name"),
        (":make", "--arch :make: use package.module:name"),
        ("collections:OrderDict", "OrderDict does not exist. Did you mean OrderedDict?"),
        ("collections:OrderedDict.frmkeys", "frmkeys does not exist. Did you mean fromkeys?"),
        ("collections:qqqq", "qqqq does not exist."),
    ],
)
def test_wrong_names(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        import_object(text, "--arch", "package.module:name")
    assert message in str(caught.value)
