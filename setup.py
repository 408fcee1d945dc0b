"""The kernel's C, which is left out where it cannot be compiled; all else is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "effsparse_cli.kernel.compiled",
            ["effsparse_cli/kernel/compiled.c"],
            depends=[f"effsparse_cli/kernel/{part}.h" for part in ("maps", "rows", "numbers", "scan", "values", "verbs", "program", "pass")],
            extra_compile_args=["-O3", "-pthread"],
            extra_link_args=["-pthread"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
