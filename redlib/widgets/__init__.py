"""Widgets of the notebooks. They only show what other rooms compute, and beside each one stands a static twin.

A callback may run on any thread: it makes text or a finished picture and gives it to the widget, and touches no pyplot.
"""

from redlib.widgets.boundary import BoundaryExplorer
from redlib.widgets.claim_table import ClaimTable
from redlib.widgets.inspector import RoutingInspector
from redlib.widgets.operand_map import OperandMap
from redlib.widgets.program_trace import ProgramTrace
from redlib.widgets.recommendation import RecommendationWidget
from redlib.widgets.savings import SavingsWidget
from redlib.widgets.token_map import NestedMap
from redlib.widgets.what_if import WhatIfPanel, rebalance

__all__ = [
    "BoundaryExplorer",
    "ClaimTable",
    "NestedMap",
    "OperandMap",
    "ProgramTrace",
    "RecommendationWidget",
    "RoutingInspector",
    "SavingsWidget",
    "WhatIfPanel",
    "rebalance",
]
