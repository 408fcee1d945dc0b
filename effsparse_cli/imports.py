"""Import what a user names as package.module:name, such as the factory of a model: the user's own code, which runs."""

from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path
from typing import Any

from effsparse_cli.errors import UsageError, describe_error


def import_object(text: str, option: str, choices: str) -> Any:
    """Return the object that `text` names. Errors name `option`, and `choices` for a text of another form."""
    module, colon, path = text.partition(":")
    if not colon or not module or not path:
        raise UsageError(f"{option} {text}: use {choices}")
    allow_local_imports()
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{option} {text}: {module} cannot be imported: {describe_error(error)}. Run the command where {module} "
            "can be imported."
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            close = difflib.get_close_matches(name, dir(found), n=1)
            raise UsageError(f"{option} {text}: {name} does not exist.{f' Did you mean {close[0]}?' if close else ''}")
        found = getattr(found, name)
    return found


def allow_local_imports() -> None:
    """Allow imports from the current folder, as `python -m` does and an installed script does not."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
