"""`python -m effsparse_cli` is `effsparse`."""

from effsparse_cli.cli import main

main()
