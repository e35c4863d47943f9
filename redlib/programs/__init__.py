"""Step programs, the language between a planner and its executors (the source, 4.2.7): print, read, check, execute.

    Step 1: 33 + 23 = x1
    Step 2: x1 - 36 = x2
    Answer: x2

Step k defines xk; an operand is a whole number or a variable of an earlier step. A `Program` is valid by construction
and can be executed with any function that does one step, be it arithmetic, a trained expert or a look-up.
"""

from redlib.programs.program import Executed, Program, StepFunction, check, exact
from redlib.programs.rules import SIGN, Step

__all__ = ["SIGN", "Executed", "Program", "Step", "StepFunction", "check", "exact"]
