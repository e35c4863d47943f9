"""The one training loop: S members (seeds x experts) trained side by side as one batched product.

Every member has its own rows, shuffling, initialisation and early stopping; nothing is shared between members but the
frozen parts, so training one member alone gives the same numbers up to the rounding of the batched product.
"""

from redlib.training.loop import LOG, Rate, fit, half_cosine
from redlib.training.members import fit_members
from redlib.training.rows import NO_TARGET, Rows, device, pooled_inputs

__all__ = ["LOG", "NO_TARGET", "Rate", "Rows", "device", "fit", "fit_members", "half_cosine", "pooled_inputs"]
