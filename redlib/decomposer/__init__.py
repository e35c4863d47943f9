"""The step decomposer (the source, 4.2.7 and 4.5.4): a text in, a program out.

A `Planner` continues a text token by token with the frozen backbone and its trained top layers, kept by a `Grammar` to
valid programs about the numbers of the text. `Symbolic` is the parser in the same role. `errors` says how a wrong
program is wrong.
"""

from redlib.decomposer import errors
from redlib.decomposer.decoding import Written, greedy, search
from redlib.decomposer.grammar import Grammar
from redlib.decomposer.planner import DECODINGS, PART, Decoding, Plan, Planner, Symbolic, line_probabilities, load, new
from redlib.decomposer.queries import check
from redlib.decomposer.sequences import Sequences, margins, prompts, spelled
from redlib.decomposer.writer import Writer

__all__ = [
    "DECODINGS",
    "PART",
    "Decoding",
    "Grammar",
    "Plan",
    "Planner",
    "Sequences",
    "Symbolic",
    "Writer",
    "Written",
    "check",
    "errors",
    "greedy",
    "line_probabilities",
    "load",
    "margins",
    "new",
    "prompts",
    "search",
    "spelled",
]
