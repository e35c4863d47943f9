"""Routed residual experts: a study of Residual Expert Decomposition and its baselines.

One subject a file; an earlier room never imports a later one. Start with `notebooks/00_start_here.ipynb`.
"""

__version__ = "0.1.0"
