"""Dense weights of 8 or 4 bits: stored that small, and multiplied by torch's own kernels for the CPU.

Inside such a product numbers are rounded to bfloat16, which the kernels are made for; around it everything stays as it
was. Embedding and head keep their 32 bits.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GROUP = 32  # inputs whose 4-bit weights share a scale and a middle
ROWS = 16  # outputs; the kernels take whole groups of inputs and whole rows of outputs, and end the process otherwise
OF_DENSE = {"dense_b_int8": 8, "dense_b_int4": 4}  # rows of the comparison: bits of the larger dense model's weights


class Quantised(nn.Module):
    """A linear map without bias by one of torch's kernels: x (..., n) -> (..., m).

    Inputs and outputs that fill no whole group are padded with zeros, and the padding is stored too.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.outputs, inputs = linear.weight.shape
        self.pack(F.pad(linear.weight.detach().float(), (0, -inputs % GROUP, 0, -self.outputs % ROWS)))

    def forward(self, x: Tensor) -> Tensor:
        rows = F.pad(x.reshape(-1, x.shape[-1]), (0, -x.shape[-1] % GROUP)).bfloat16()
        return self.multiply(rows)[:, : self.outputs].to(x.dtype).reshape(*x.shape[:-1], -1)

    def pack(self, weight: Tensor) -> None:
        """Keep a padded weight (m, n) as the kernel reads it."""
        raise NotImplementedError

    def multiply(self, rows: Tensor) -> Tensor:
        """Padded rows (B, n) in bfloat16 by the kept weight: (B, m)."""
        raise NotImplementedError


class Int8Linear(Quantised):
    """Weights of 8 bits, and a scale an output."""

    def pack(self, weight: Tensor) -> None:
        scale = (weight.abs().amax(1).clamp_min(1e-12) / 127).bfloat16()
        self.register_buffer("weight", (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8))
        self.register_buffer("scale", scale)

    def multiply(self, rows: Tensor) -> Tensor:
        return torch.ops.aten._weight_int8pack_mm(rows, self.weight, self.scale)


class Int4Linear(Quantised):
    """Weights of 4 bits, and a scale and a middle a group of GROUP inputs."""

    def pack(self, weight: Tensor) -> None:
        groups = weight.unflatten(1, (-1, GROUP))  # (outputs, groups, GROUP)
        low, high = groups.amin(2), groups.amax(2)
        scale = ((high - low).clamp_min(1e-12) / 15).bfloat16()
        middle = (low + 8 * scale).bfloat16()
        steps = ((groups - middle[..., None]) / scale[..., None]).round().clamp(-8, 7).to(torch.int32) + 8
        self.register_buffer("weight", torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps.flatten(1), 1))
        self.register_buffer("scales", torch.stack([scale.T, middle.T], 2).contiguous())  # (groups, outputs, 2)

    def multiply(self, rows: Tensor) -> Tensor:
        return torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, GROUP, self.scales)


KINDS = {8: Int8Linear, 4: Int4Linear}


def quantised(model: nn.Module, bits: int) -> nn.Module:
    """A copy of a decoder with the linear maps of its layers in 8 or 4 bits; ValueError for other bits."""
    if bits not in KINDS:
        raise ValueError(f"weights can have {' or '.join(map(str, KINDS))} bits, got {bits}")
    made = copy.deepcopy(model)
    for module in list(made.model.layers.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, KINDS[bits](child))
    return made
