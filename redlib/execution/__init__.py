"""Executing step programs with experts (the source, 4.8): from a table of all steps, many programs at once.

The steps a op b that programs can meet are finitely many. Each executor predicts all of them once; executing a program
is then a look-up a step, and every error and every step outside the experts' domain is known exactly. `solve` does one
question with any executor, and shows it step by step.
"""

from redlib.execution.errors import KINDS, budget, compounding, exposure, outcomes
from redlib.execution.experts import Experts
from redlib.execution.maps import as_lines, as_steps
from redlib.execution.run import Plans, Run, encode, run
from redlib.execution.solution import Said, Solution
from redlib.execution.solving import Solver, arithmetic, solve
from redlib.execution.table import Look, StepTable, symbolic

__all__ = [
    "KINDS",
    "Experts",
    "Look",
    "Plans",
    "Run",
    "Said",
    "Solution",
    "Solver",
    "StepTable",
    "arithmetic",
    "as_lines",
    "as_steps",
    "budget",
    "compounding",
    "encode",
    "exposure",
    "outcomes",
    "run",
    "solve",
    "symbolic",
]
