"""What small readers find in frozen features: what is there for a linear map, what for a small network, what is not.

`probe` scores trained linear and 2-layer probes; `network` and `closed` give what a 2-layer probe and closed-form
linear probes say of every row; `circle` has a number's Fourier components, `majority` what to beat.
"""

from redlib.probes.closed import circle, closed, majority
from redlib.probes.trained import PROBES, network, probe

__all__ = ["PROBES", "circle", "closed", "majority", "network", "probe"]
