"""The step decomposer (the source, 4.2.7 and 4.5.4): a text in, a program out.

A `Planner` continues a text token by token with the frozen backbone and its trained top layers, kept on the path of
valid programs by a `Grammar`. `Symbolic` is the parser in the same role. `errors` says how a wrong program is wrong.
"""

from redlib.decomposer import errors
from redlib.decomposer.decoding import Written, greedy
from redlib.decomposer.grammar import Grammar
from redlib.decomposer.planner import PART, Plan, Planner, Symbolic, line_probabilities, load, new
from redlib.decomposer.queries import check
from redlib.decomposer.sequences import Sequences, margins, prompts, spelled
from redlib.decomposer.writer import Writer

__all__ = [
    "PART",
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
    "spelled",
]
