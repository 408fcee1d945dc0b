"""compiled.c: what plain.py does, and whole passes over packed bits, which Python has recorded (paths/recording.py)."""

from collections.abc import Callable
from typing import Any

from effsparse_cli.kernel.bits import Words
from effsparse_cli.kernel.plain import Geometry, Opened, Tally
from effsparse_cli.kernel.plain import backward as backward
from effsparse_cli.kernel.plain import forward as forward
from effsparse_cli.kernel.plain import meet as meet
from effsparse_cli.kernel.plain import number as number
from effsparse_cli.kernel.plain import scan as scan
from effsparse_cli.kernel.plain import tally as tally
from effsparse_cli.kernel.plain import transpose as transpose

# What an instruction does: the verbs of paths/algebra.py. TIMES is the elementwise product, BACK contract_back.
PLUS: int
TIMES: int
PRODUCT: int
TOTAL: int
PERMUTE: int
RESHAPE: int
TAKE: int
PUT: int
CONCAT: int
SPLIT: int
WINDOW: int
CONTRACT: int
BACK: int
MEET: int

def compile(
    instructions: list[tuple[int, int, bytes, int, int, bytes]],
    contractions: list[tuple[object, ...]],
    constants: list[tuple[int, Any]],
    ranks: bytes,
    sizes: bytes,
) -> object:
    """A program. Instructions: the verb; the number of a twin, an earlier one that does the same to other values, or
    -1; the registers of its values; the first register of its results, or the number of a meeting, and how many results
    there are; and what it is told.
    Contractions: the sheet of the weight, groups, channels and rows of a group, the axis of the channels, whether the
    sheet has the weight by columns, whether all taps are ever used, the sizes of x and y behind their channels, and
    both geometries for a batch of one. Constants: a register, and its value in a form of paths/forms.py. Ranks of all
    registers; rows and columns of all sheets."""

def run(
    program: object,
    words: Words,
    order: bytes,
    open_: Callable[[int], Opened],
    ask: Callable[[int, list[Any]], list[Any]],
    ways: Callable[[int, int], tuple[Geometry, Geometry]],
    helped: bool,
) -> tuple[object, list[Tally], bytes, bytes, bytes]:
    """Reads weights as `scan` does, and goes through the program. In the order, ~k is sheet k as far as it takes
    to know that all its columns are in use; k itself follows later. `ask` does an instruction, known by its number,
    that the kernel cannot do; `ways` finds the geometries of a contraction for so many positions in the batch. Gives
    back the pass; the tallies of all meetings in order; which of these Python has to find; which registers are not
    empty; and what `scan` gives back."""

def room(program: object) -> tuple[int, bytes]:
    """How many words `run` needs for the bits of all weights; and for each sheet where its words begin, as int64, or -1
    if those that are zero are left out of it, as of wide ones in large models."""

def loose(program: object, words: Words, sheet: int, into: Words) -> None:
    """The rows of a sheet, with zeros where words were left out."""

def tighten(large: int, narrow: int) -> tuple[int, int]:
    """From how many words on, of all weights and of a row, programs that are compiled leave zeros out. Gives back what
    it was."""

def cut(piece: int) -> int:
    """How many bytes of a weight a thread packs at a time. Gives back what it was."""

def value(pass_: object, register: int) -> Any:
    """What a register had in the end, as a form."""

def widen(vectors: int) -> int:
    """How wide the vectors may be that numbers are read by: 0, 1 or 2. Gives back how wide they are: no wider than the
    processor has them."""
