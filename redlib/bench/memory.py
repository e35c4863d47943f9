"""Peak memory of one step at the true shapes of a backbone: counted without weights beside measured with them."""

import pandas as pd

from redlib import cost
from redlib.bench.measuring import Line, report
from redlib.cost.measured import STEPS

BATCH, TOKENS, CLASSES = 16, 64, 99  # the source's batch and answers; it gives no length, and no text of ours is longer


def run(
    backbone: str = "qwen3-0.6b", batch: int = BATCH, tokens: int = TOKENS, classes: int = CLASSES, write: bool = False
) -> pd.DataFrame:
    """Cases `<backbone>, batch B, T tokens/training` and `/inference`, 32-bit numbers.

    Metrics in bytes: `counted_peak` (of tensors), `measured_peak` (of a process of its own, on top of `process_before`,
    what Python and its libraries took before the backbone was there), and what each part takes by the count
    (`counted_weights`, `counted_gradients`, `counted_optimiser`, `counted_working`).
    """
    configuration = cost.configuration(backbone)
    counts = {
        "training": cost.training_memory(configuration, batch, tokens, classes),
        "inference": cost.inference_memory(configuration, batch, tokens),
    }
    lines: list[Line] = []
    for step in STEPS:
        case = f"{backbone}, batch {batch}, {tokens} tokens/{step}"
        seen = cost.measured_peak(backbone, step, batch, tokens, classes)
        parts = ("weights", "gradients", "optimiser", "working", "peak")
        lines += [(case, f"counted_{part}", getattr(counts[step], part), "B") for part in parts]
        lines += [(case, "measured_peak", seen["peak"] - seen["before"], "B")]
        lines += [(case, "process_before", seen["before"], "B")]
    return report("memory", lines, write)
