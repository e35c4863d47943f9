"""Arithmetic expressions and the label space that their values fall into (the source, 4.1 and 4.2.1).

Nothing here knows words or models: an `Expression` is a chain of whole numbers joined by + and -, and a `LabelSpace`
says which values exist (C classes) and how they are grouped into ranges (K of them, one expert each).
"""

from redlib.expressions.domain import SOURCE_OPERANDS, Chains, additions
from redlib.expressions.expression import OPERATORS, Expression
from redlib.expressions.labels import SOURCE_LABELS, LabelSpace

__all__ = ["OPERATORS", "SOURCE_LABELS", "SOURCE_OPERANDS", "Chains", "Expression", "LabelSpace", "additions"]
