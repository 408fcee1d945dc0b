"""compiled.c, which does what plain.py does."""

from effsparse_cli.kernel.plain import backward as backward
from effsparse_cli.kernel.plain import forward as forward
from effsparse_cli.kernel.plain import meet as meet
from effsparse_cli.kernel.plain import number as number
from effsparse_cli.kernel.plain import pack as pack
from effsparse_cli.kernel.plain import tally as tally
from effsparse_cli.kernel.plain import transpose as transpose
