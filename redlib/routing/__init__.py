"""What a router does and what happens when it is wrong: load, agreement, calibration, regret, corrupted weights.

Everything works on arrays (routing weights (N, K), the experts' logits (K, N, C)) or on one method's rows of the long
frame of predictions, and gives `Statistic`s keyed by what they are about; `tidy` turns those into result rows.
"""

from redlib.routing.calibration import BINS, brier, ece, reliability, selective
from redlib.routing.corrupt import CORRUPTIONS, NEUTRAL, corrupt
from redlib.routing.curves import boundary_distance, by_distance, curves
from redlib.routing.experts import Experts, open_experts
from redlib.routing.load import balance, load
from redlib.routing.regret import Regret, best_mixture, exceedance, regret, regrets
from redlib.routing.robustness import Hits, flat, half_lost, hits, robustness, verdicts
from redlib.routing.rows import resampler, tidy
from redlib.routing.summary import summary
from redlib.routing.weights import check_weights, entropy, weights_of

__all__ = [
    "BINS",
    "CORRUPTIONS",
    "NEUTRAL",
    "Experts",
    "Hits",
    "Regret",
    "balance",
    "best_mixture",
    "boundary_distance",
    "brier",
    "by_distance",
    "check_weights",
    "corrupt",
    "curves",
    "ece",
    "entropy",
    "exceedance",
    "flat",
    "half_lost",
    "hits",
    "load",
    "open_experts",
    "regret",
    "regrets",
    "reliability",
    "resampler",
    "robustness",
    "selective",
    "summary",
    "tidy",
    "verdicts",
    "weights_of",
]
