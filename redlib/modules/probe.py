"""The probe batch of a module file: a few texts, what the backbone says of them and what the parts answer.

A name and a set of shapes can be right and the numbers wrong. So both are computed again at loading and compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from redlib import features, models
from redlib.backbone import Backbone

TOLERANCE = 1e-5  # relative: the rounding of another version or machine passes, another network does not
ROWS, ROWS_OF_STATES = 8, 2  # token states of a text are as large as pooled features of forty
PREFIX = "probe."  # of its tensors in a module file
Answer = Callable[[Any], Tensor]  # what the base reads -> logits (n, C) of the whole
Answers = Callable[[Mapping[str, nn.Module]], Answer]  # of the parts, as they are or as they will be read


@dataclass(frozen=True)
class Probe:
    """n texts and what a base reads of them: pooled features (n, d), or token states (n, T, d) and their mask.

    hidden (n, d): h of the texts, for a file whose parts read h and that holds no base. states: the layer of the token
    states, None for pooled features.
    """

    texts: tuple[str, ...]
    read: tuple[Tensor, ...]
    hidden: Tensor | None = None
    states: int | None = None

    @classmethod
    def of(
        cls,
        backbone: Backbone,
        texts: Sequence[str],
        layer: int,
        pooling: str,
        tuned_layers: int = 0,
        base: nn.Module | None = None,
        states: int | None = None,
    ) -> "Probe":
        """The first ROWS of the texts as the backbone sees them, pooled, or the first ROWS_OF_STATES as token states
        below tuned layers or at the layer `states`; `base`: what makes h of them, if that is saved elsewhere.
        ValueError for no text."""
        states = -1 - tuned_layers if tuned_layers else states
        texts = tuple(texts[: ROWS if states is None else ROWS_OF_STATES])
        if not texts:
            raise ValueError("a probe batch needs at least one text")
        read = seen(backbone, texts, layer, pooling, states)
        return cls(texts, read, None if base is None else hidden(base, read), states)

    def tensors(self) -> dict[str, Tensor]:
        """Its own tensors as a module file names them."""
        named = dict(zip(("features", "mask"), self.read, strict=False))
        return {PREFIX + name: t for name, t in (named | {"hidden": self.hidden}).items() if t is not None}

    @classmethod
    def reread(cls, record: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> "Probe | None":
        """The probe of a module file that holds these tensors (of any shape, by name); None where it has none."""
        if not record.get("probe"):
            return None
        read = tuple(tensors[PREFIX + name] for name in ("features", "mask") if PREFIX + name in tensors)
        states = record["probe"].get("states", _below_tuned(record))  # early files do not say
        return cls(tuple(record["probe"]["texts"]), read, tensors.get(f"{PREFIX}hidden"), states)


def _below_tuned(record: Mapping[str, Any]) -> int | None:
    tuned = next((spec["layers"] for spec in record["parts"].values() if spec["kind"] == "TokenBase"), 0)
    return -1 - tuned if tuned else None


@torch.no_grad()
def seen(backbone: Backbone, texts: Sequence[str], layer: int, pooling: str, states: int | None = None) -> tuple:
    """What a base reads of the texts, in fp32 on the CPU: (features (n, d),), or the token states (n, T, d) of the
    layer `states` and their mask (n, T)."""
    if states is None:
        point = features.Point(layer, pooling)
        return (torch.from_numpy(features.compute(backbone, texts, [point])[point]),)
    ids = backbone.encode(texts)
    mask = torch.arange(max(map(len, ids)))[None] < torch.tensor([[len(row)] for row in ids])
    padded = torch.zeros(mask.shape, dtype=torch.long)
    padded[mask] = torch.tensor([token for row in ids for token in row])
    found = backbone.run(padded.to(backbone.device), mask.to(backbone.device), keep=(states,))[states]
    return found.float().cpu() * mask[..., None], mask


def hidden(base: nn.Module, read: tuple[Tensor, ...]) -> Tensor:
    """h (n, d) that a base makes of what it reads."""
    h = base(*read)
    return h[0] if h.dim() == 3 else h


@torch.no_grad()
def answers(parts: Mapping[str, nn.Module], probe: Probe, answer: Answer | None = None) -> dict[str, Tensor]:
    """What every part says of the probe's h, and the logits of the whole; parts that do not read h are left out."""
    if "base" in parts:
        h = hidden(parts["base"], probe.read)
    else:
        h = probe.read[0] if probe.hidden is None else probe.hidden
    found = {"base": h} if "base" in parts else {}
    for name, part in parts.items():
        shape = getattr(part, "shape", {})
        if name != "base" and shape.get("d", shape.get("d_in")) == h.shape[-1]:
            found[name] = part(h)
    if answer is not None:
        found["logits"] = answer(probe.read if len(probe.read) > 1 else probe.read[0])
    return found


def drift(now: Tensor, expected: Tensor) -> float:
    """The largest difference of a row of (..., d) over the norm of the expected row, or over the median norm where that
    is larger; infinite for other shapes and for what is no number."""
    if now.shape != expected.shape:
        return float("inf")
    apart, size = ((t.double().flatten(0, -2).norm(dim=-1)) for t in (now - expected, expected))
    size = size.clamp_min(float(size.median()))
    found = float(torch.where(apart == 0, 0.0, apart / size).max())
    return found if found == found else float("inf")


def check_features(record: Mapping[str, Any], probe: Probe, backbone: Backbone) -> dict[str, Any]:
    """How far the backbone's features are from the expected ones; ValueError beyond TOLERANCE in the same dtype."""
    now = seen(backbone, probe.texts, record["layer"], record["pooling"], probe.states)
    found = drift(now[0], probe.read[0])
    dtype = str(backbone.dtype).removeprefix("torch.")
    if dtype == record["dtype"] and found > TOLERANCE:
        raise ValueError(
            f"the backbone has the right identity but not the right behaviour: on the probe texts its features "
            f"at layer {record['layer']} are {found:.1e} away from those that the parts were trained on, and "
            f"{TOLERANCE:g} is allowed"
        )
    return {"features": found, "dtype": dtype}


def check_answers(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """The largest drift of the parts' answers, (..., d) by name; ValueError names the part that is beyond TOLERANCE."""
    largest = 0.0
    for name, now in found.items():
        apart = drift(now, expected[name])
        if apart > TOLERANCE:
            raise ValueError(
                f"part {name!r} does not answer the probe texts as it did when it was saved: {apart:.1e} away, and "
                f"{TOLERANCE:g} is allowed"
            )
        largest = max(largest, apart)
    return largest


def whole(method: str | None, record: Mapping[str, Any], parts: Mapping[str, nn.Module]) -> Answer | None:
    """The logits of the method that the parts make up; None for no method, or one that needs the true ranges."""
    if method not in models.METHODS | models.PLUS or method == "oracle_experts":
        return None
    made = models.assemble(method, models.LabelSpace(**record["labels"]), dict(parts))
    return lambda x: made(x).logits
