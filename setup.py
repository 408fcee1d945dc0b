"""The kernel's C, which is left out where it cannot be compiled; all else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "effsparse_cli.kernel.compiled",
            ["effsparse_cli/kernel/compiled.c"],
            depends=[str(part) for part in Path("effsparse_cli/kernel").glob("*.h")],
            extra_compile_args=["-O3", "-pthread"],
            extra_link_args=["-pthread"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
