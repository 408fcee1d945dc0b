"""Errors in the words of Python: messages name options of the command line, and these become arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from effsparse_cli import files
from effsparse_cli.arguments import to_arguments
from effsparse_cli.errors import EffsparseError

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def in_python(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Decorate a public function: its errors name arguments, and it never overwrites a file that it has read."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            with files.one_run():
                return function(*args, **kwargs)
        except EffsparseError as error:
            message = to_arguments(str(error))
            if message == str(error):
                raise
            renamed = type(error)(message)
            renamed.input_shapes = error.input_shapes
            raise renamed from error

    return call
