"""Run `effsparse` as `python -m effsparse_cli`."""

from effsparse_cli.cli import main

main()
