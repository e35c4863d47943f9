"""Intervals: a cluster bootstrap over structures, then seeds; Wilson and McNemar for independent rows."""

from redlib.statistics.curves import CurveResampler, Curves, interval
from redlib.statistics.proportions import LEVEL, McNemar, mcnemar, wilson
from redlib.statistics.resampling import (
    Estimate,
    Resampler,
    Statistic,
    cluster_mean,
    unpaired_difference,
)

__all__ = [
    "LEVEL",
    "CurveResampler",
    "Curves",
    "Estimate",
    "McNemar",
    "Resampler",
    "Statistic",
    "cluster_mean",
    "interval",
    "mcnemar",
    "unpaired_difference",
    "wilson",
]
