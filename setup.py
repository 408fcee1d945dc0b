"""The compiled kernel, which is optional; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("effsparse_cli/kernel")

setup(
    ext_modules=[
        Extension(
            "effsparse_cli.kernel.compiled",
            sorted(map(str, KERNEL.glob("*.c"))),
            depends=sorted(map(str, KERNEL.glob("*.h"))),
            extra_compile_args=["-O3", "-fvisibility=hidden"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
