"""What each method costs: closed forms beside counts from the real modules, in parameters, FLOPs and memory.

A FLOP is a multiplication or an addition of a matrix product, as torch's counter has it: a multiply-add is two. What is
done element by element (activations, norms, softmax) is left out.
"""

from redlib.cost.counting import counted, flops, modules
from redlib.cost.formulas import FORMULAS, break_even, leading, rank_for
from redlib.cost.front import front, with_cost
from redlib.cost.measured import measured_peak
from redlib.cost.memory import Memory, inference_memory, training_memory
from redlib.cost.methods import NAMES, Cost, Sizes, control_widths, method_cost, parts, router_cost, skipping
from redlib.cost.shapes import SHAPES, Shape, configuration, skeleton

__all__ = [
    "FORMULAS",
    "NAMES",
    "SHAPES",
    "Cost",
    "Memory",
    "Shape",
    "Sizes",
    "break_even",
    "configuration",
    "control_widths",
    "counted",
    "flops",
    "front",
    "inference_memory",
    "leading",
    "measured_peak",
    "method_cost",
    "modules",
    "parts",
    "rank_for",
    "router_cost",
    "skeleton",
    "skipping",
    "training_memory",
    "with_cost",
]
