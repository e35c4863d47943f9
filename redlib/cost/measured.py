"""Peak memory of one step as the machine sees it, in a process of its own: the check on what `memory` counts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from redlib.backbone import Backbone
from redlib.cost.memory import final_states
from redlib.cost.shapes import SHAPES, configuration, skeleton

STEPS = ("training", "inference")


def measured_peak(name: str, step: str, batch: int = 16, tokens: int = 64, classes: int = 99) -> dict[str, float]:
    """Bytes of a process before the backbone is there (`before`) and at most (`peak`), one step at its true shapes.

    Weights are arbitrary numbers, in 32 bits: no download. On CUDA its own counter is read, else the resident set. The
    step is the one of `training_memory` (two top layers, AdamW, two steps) or `inference_memory`. ValueError for an
    unknown backbone or step.
    """
    if name not in SHAPES:
        raise ValueError(f"no shape of a backbone {name!r} is written down; valid names: {', '.join(SHAPES)}")
    if step not in STEPS:
        raise ValueError(f"unknown step {step!r}; valid steps: {', '.join(STEPS)}")
    asked = json.dumps([name, step, batch, tokens, classes])
    command = [sys.executable, "-m", "redlib.cost.measured", asked]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"measuring {step} of {name} failed: {(done.stderr.strip() or 'killed').splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_step(config: Any, step: str, batch: int, tokens: int, classes: int) -> dict[str, float]:
    """What `measured_peak` reports, in this process."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    before = peak_bytes(device)
    backbone = _filled(skeleton(config, 2 if step == "training" else 0), device)
    ids = torch.zeros(batch, tokens, dtype=torch.long, device=device)
    if step == "training":
        _train(backbone, ids, classes)
    else:
        with torch.no_grad():
            final_states(backbone, ids).mean(1)
    return {"before": before, "peak": peak_bytes(device)}


def _train(backbone: Backbone, ids: torch.Tensor, classes: int) -> None:
    head = nn.Linear(backbone.hidden_size, classes, device=ids.device)
    for layer in backbone.model.layers[backbone.boundary :]:
        layer.requires_grad_(True)
    trained = [p for p in [*backbone.model.parameters(), *head.parameters()] if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, foreach=False)
    target = torch.zeros(len(ids), dtype=torch.long, device=ids.device)
    for _ in range(2):
        F.cross_entropy(head(final_states(backbone, ids).mean(1)), target).backward()
        optimiser.step()
        optimiser.zero_grad()


def _filled(backbone: Backbone, device: torch.device) -> Backbone:
    """Real memory behind every weight; memory that nobody wrote to is not resident."""
    model = backbone.model.to_empty(device=device)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.fill_(0.01)
    return backbone


def peak_bytes(device: torch.device) -> float:
    """Most bytes so far: of tensors on CUDA, else the resident set of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")  # Linux: unlike getrusage, not inherited from the process that started this one
    if status.is_file():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    backbone_name, *rest = json.loads(sys.argv[1])
    print(json.dumps(run_step(configuration(backbone_name), *rest)))
