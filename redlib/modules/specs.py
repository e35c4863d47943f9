"""What each kind of part is, as plain data, and the untrained part that its tensors are loaded into."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from redlib import models
from redlib.expressions import LabelSpace

_KINDS = (models.LinearBank, models.MLPBank, models.ResidualExperts, models.FourierBank, models.DigitBank)
_BANKS = {kind.__name__: kind for kind in (*_KINDS, models.NetworkBase, models.LightBase)}
VALID = ", ".join([*_BANKS, "PooledBase", "TokenBase", "State"])


class State(nn.Module):
    """Tensors by name with the configuration of what they belong to: any network that this room knows nothing of, such
    as a step decomposer. Their types are kept."""

    def __init__(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]):
        super().__init__()
        shapes = {name: [str(t.dtype).removeprefix("torch."), *t.shape] for name, t in tensors.items()}
        self.shape = {"config": dict(config), "tensors": shapes}
        for name, tensor in tensors.items():
            self.register_buffer(name.replace(".", "/"), tensor.detach().clone())

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of what the tensors belong to."""
        return self.shape["config"]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors under their own names, for `load_state_dict`."""
        return {name.replace("/", "."): tensor for name, tensor in self.named_buffers()}


def describe(part: nn.Module) -> dict[str, Any]:
    """The kind of a part and what it is built from; ValueError for a kind that cannot be saved."""
    kind = type(part).__name__
    if kind in _BANKS:
        return {"kind": kind, "members": next(part.parameters()).shape[0], **part.shape}
    if isinstance(part, models.PooledBase):
        return {"kind": kind, "members": part.mean.shape[0], **part.shape}
    if isinstance(part, models.TokenBase):
        return {"kind": kind, "layers": len(part.top.layers)}
    if isinstance(part, State):
        return {"kind": kind, **part.shape}
    if isinstance(part, nn.Identity):
        return {"kind": kind}
    raise ValueError(f"no way to save a part of type {kind}; valid: {VALID}")


def build(spec: Mapping[str, Any], backbone: Any = None) -> nn.Module:
    """The untrained part of a description; a token base is made of the backbone's own top layers (ValueError without
    one)."""
    shape = {key: value for key, value in spec.items() if key not in ("kind", "members")}
    if "labels" in shape:
        shape["labels"] = LabelSpace(**shape["labels"])
    if spec["kind"] in _BANKS:
        return _BANKS[spec["kind"]]([0] * spec["members"], **shape)
    if spec["kind"] == "PooledBase":
        empty = torch.zeros(spec["members"], 1, spec["d"])
        return models.PooledBase(empty, empty.clone())
    if spec["kind"] == "TokenBase":
        if backbone is None:
            raise ValueError("these parts tune layers of the backbone; pass the backbone to load them")
        return models.TokenBase(backbone.top(spec["layers"]))
    if spec["kind"] == "State":
        empty = {
            name: torch.empty(size, dtype=getattr(torch, kind)) for name, (kind, *size) in shape["tensors"].items()
        }
        return State(empty, shape["config"])
    if spec["kind"] == "Identity":
        return nn.Identity()
    raise ValueError(
        f"no part of kind {spec['kind']!r} is known; valid: {', '.join(_BANKS)}, PooledBase, TokenBase, State"
    )


def fill(name: str, part: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """The part with these tensors (of any shape, by name), frozen and in evaluation mode; ValueError names one that is
    missing, too much or shaped otherwise than the part's."""
    wanted = {key: tuple(value.shape) for key, value in part.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in state.items()}
    for odd, word in (
        (wanted.keys() - given.keys(), "lacks"),
        (given.keys() - wanted.keys(), "has no place for"),
        ({key for key in wanted if wanted[key] != given.get(key)}, "has another shape than its passport says at"),
    ):
        if odd:
            raise ValueError(f"part {name!r} {word} {', '.join(sorted(odd)[:3])}")
    part.load_state_dict(dict(state))
    return part.eval().requires_grad_(False)


def reread(part: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """A copy of a part as it will be read from a file that holds `state` (tensors of any shape, by name): in fp32, a
    State in its own types, whatever it was written in."""
    copy = deepcopy(part) if isinstance(part, State) else deepcopy(part).float()
    copy.load_state_dict(dict(state))
    return copy.eval()


def role(parts: Mapping[str, nn.Module], method: str | None) -> str:
    """What a file holds, in a word: the method it makes up, the one part it is, or `parts`."""
    if method:
        return method
    if len(parts) > 1:
        return "parts"
    name, part = next(iter(parts.items()), ("parts", None))
    return "top_layers" if isinstance(part, models.TokenBase) else name
