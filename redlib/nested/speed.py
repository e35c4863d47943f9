"""What nested experts save on a clock and in memory: inference, training steps, activations, beside plain baselines.

Cases take turns, round after round, so that a machine that slows down slows all of them. The plain model runs twice: on
our own blocks, and out of torch's layers. Every case runs as one batch and in chunks, and its faster way counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.cost.memory import measure
from redlib.nested.arms import Grouped
from redlib.nested.vit import EXPANSION, NestedViT, Shape

CHUNK = 16
Cases = Mapping[str, Callable[[], object]]


def by_torch(model: NestedViT) -> nn.Module:
    """The plain model with the same weights out of torch's own layers: tokens (B, N, D) to tokens."""
    layers = []
    for block in model.blocks:
        like = block.qkv.weight
        layer = nn.TransformerEncoderLayer(
            like.shape[1],
            block.heads,
            EXPANSION * like.shape[1],
            0.0,
            "gelu",
            batch_first=True,
            norm_first=True,
            device=like.device,
            dtype=like.dtype,
        )
        own = {"self_attn.in_proj_weight": block.qkv.weight, "self_attn.in_proj_bias": block.qkv.bias}
        named = (("self_attn.out_proj", block.out), ("linear1", block.up), ("linear2", block.down))
        for name, module in (*named, ("norm1", block.norm1), ("norm2", block.norm2)):
            own |= {f"{name}.weight": module.weight, f"{name}.bias": module.bias}
        layer.load_state_dict(own)
        layers.append(layer)
    return nn.Sequential(*layers).train(model.training)


def inference(shape: Shape, budgets: Sequence[float], batch: int, rounds: int) -> dict[str, np.ndarray]:
    """Seconds a batch of every case, a number a round: `plain`, `plain_torch`, `nested/<budget>`, `grouped/<budget>`,
    each also with `/chunks`."""
    torch.manual_seed(0)
    nested, grouped = NestedViT(shape).eval(), Grouped(shape).eval()
    layers = by_torch(nested)
    images = torch.rand(batch, shape.canvas, shape.canvas)
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "plain": nested.plain,
        "plain_torch": lambda x: nested.classify(layers(nested.stem(x))),
    }
    calls |= {f"nested/{e:g}": lambda x, e=e: nested(x, e) for e in budgets}
    calls |= {f"grouped/{e:g}": lambda x, e=e: grouped(x, e) for e in budgets}
    cases = {name: lambda call=call: call(images) for name, call in calls.items()}
    cases |= {
        f"{name}/chunks": lambda call=call: [call(x) for x in images.split(CHUNK)] for name, call in calls.items()
    }
    with torch.inference_mode():
        return in_turn(cases, rounds)


def training(shape: Shape, budgets: Sequence[float], batch: int, rounds: int) -> dict[str, np.ndarray]:
    """Seconds of a forward and a backward pass, a number a round: `plain`, `nested/<budget>`, `grouped/<budget>`."""
    return in_turn(dict(_steps(shape, budgets, batch)), rounds)


def activations(shape: Shape, budgets: Sequence[float], batch: int) -> dict[str, int]:
    """Peak bytes of what a training step makes beside weights and gradients, by case; counted, not measured."""
    found = {}
    for name, step in _steps(shape, budgets, batch):
        found[name] = measure(step.parameters, step, None).working
    return found


class _Step:
    """One forward and backward pass of a model."""

    def __init__(self, model: NestedViT, call: Callable[[Tensor], Tensor], images: Tensor):
        self.parameters, self.call, self.images = list(model.parameters()), call, images
        self.labels = torch.zeros(len(images), dtype=torch.long)

    def __call__(self) -> None:
        F.cross_entropy(self.call(self.images), self.labels).backward()
        for p in self.parameters:
            p.grad = None


def _steps(shape: Shape, budgets: Sequence[float], batch: int) -> Iterator[tuple[str, _Step]]:
    torch.manual_seed(0)
    nested, grouped = NestedViT(shape), Grouped(shape)
    images = torch.rand(batch, shape.canvas, shape.canvas)
    yield "plain", _Step(nested, nested.plain, images)
    for e in budgets:
        yield f"nested/{e:g}", _Step(nested, lambda x, e=e: nested(x, e), images)
        yield f"grouped/{e:g}", _Step(grouped, lambda x, e=e: grouped(x, e), images)


def in_turn(cases: Cases, rounds: int) -> dict[str, np.ndarray]:
    """Seconds of every case, (rounds,), one after another within a round; the first round warms up and is dropped."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds + 1):
        for name, case in cases.items():
            start = perf_counter()
            case()
            taken[name].append(perf_counter() - start)
    return {name: np.array(seconds[1:]) for name, seconds in taken.items()}


def faster(seconds: Mapping[str, np.ndarray], *names: str) -> np.ndarray:
    """Of the seconds (rounds,) of several cases, each also in chunks, those with the smallest median."""
    ways = [seconds[way] for name in names for way in (name, f"{name}/chunks") if way in seconds]
    return min(ways, key=np.median)


def ratio(top: np.ndarray, bottom: np.ndarray, seed: int = 0, level: float = 0.95) -> tuple[float, float, float]:
    """Median over rounds of top / bottom, (rounds,) each, and its interval over resampled rounds."""
    ratios = top / bottom
    picks = np.random.default_rng(seed).integers(len(ratios), size=(1000, len(ratios)))
    low, high = np.quantile(np.median(ratios[picks], axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(np.median(ratios)), float(low), float(high)
