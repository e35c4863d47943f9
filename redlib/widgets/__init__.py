"""Widgets of the notebooks. They only show what other rooms compute, and beside each one stands a static twin.

A callback may run on any thread: it makes text or a finished picture and gives it to the widget, and touches no pyplot.
"""

from redlib.widgets.savings import SavingsWidget

__all__ = ["SavingsWidget"]
