"""Arms of the fair comparison: RED, the softmax mixture and what lies between them, as one form with seven settings.

    logits = base + scale * sum_i a_i E_i(h)

Every arm differs from its named reference in one setting, so that a difference between the two has one cause.
"""

from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor, nn

from redlib.expressions import LabelSpace
from redlib.models.methods import Method, Output, mix
from redlib.models.parts import ResidualExperts

CHOICES = {
    "base_term": ("kept", "dropped"),  # whether h (its logits, for heads) stands in the sum
    "scale": (1.0, 0.1, "learned"),  # of the sum of experts; learned: one number, fitted with all else frozen
    "router": ("two_layer", "linear"),
    "target": ("range", "answer"),  # answer: trained through the frozen experts
    "weights": ("soft", "top1", "uniform", "all"),  # all: every expert at weight 1, so that they sum to K
    "experts": ("residual", "residual_alone", "mlp", "mlp_on_base", "linear"),
    "epochs": ("converged", "one"),  # of the router
}
TRAINED = {  # base term and scale under which each kind of expert is trained, on the rows of its own range
    "residual": ("kept", 1.0),
    "residual_alone": ("dropped", 1.0),
    "mlp": ("dropped", 1.0),
    "mlp_on_base": ("kept", 0.1),  # the authors' public code
    "linear": ("dropped", 1.0),
}


@dataclass(frozen=True)
class Arm:
    """One arm: RED but for the settings named; `reference` is the arm that it is one change away from."""

    name: str
    reference: str = "red"
    base_term: str = "kept"
    scale: float | str = 1.0
    router: str = "two_layer"
    target: str = "range"
    weights: str = "soft"
    experts: str = "residual"
    epochs: str = "converged"

    def __post_init__(self) -> None:
        for name, valid in CHOICES.items():
            if getattr(self, name) not in valid:
                known = ", ".join(map(str, valid))
                raise ValueError(f"arm {self.name!r}: unknown {name} {getattr(self, name)!r}; valid: {known}")

    @property
    def corrects(self) -> bool:
        """Whether the experts correct h before the shared classifier (residual), or are heads with logits."""
        return self.experts.startswith("residual")

    @property
    def router_name(self) -> str:
        """The trained router; arms with the same name share it. Experts matter to one that is trained through them."""
        own = [self.router, self.target, self.epochs]
        if self.target == "answer":
            own += [
                self.base_term,
                self.experts,
                f"scale={self.trained_scale:g}".replace(".", "_"),
            ]  # a part has no dot
        return "-".join(own)

    @property
    def trained_scale(self) -> float:
        """The scale while a router is trained through the experts; a learned one is fitted after that."""
        return 1.0 if self.scale == "learned" else self.scale

    def changes(self, other: "Arm") -> dict[str, float | str]:
        """The settings in which this arm differs from the other, with this arm's values."""
        return {name: getattr(self, name) for name in CHOICES if getattr(self, name) != getattr(other, name)}


def _arms(*steps: tuple[str, str, dict]) -> dict[str, Arm]:
    made = {"red": Arm("red")}
    for name, reference, change in steps:
        made[name] = replace(made[reference], name=name, reference=reference, **change)
    return made


ARMS: dict[str, Arm] = _arms(
    # one change from RED
    ("base_dropped", "red", {"base_term": "dropped"}),
    ("scale_tenth", "red", {"scale": 0.1}),
    ("scale_learned", "red", {"scale": "learned"}),
    ("router_linear", "red", {"router": "linear"}),
    ("router_answer", "red", {"target": "answer"}),
    ("router_one_epoch", "red", {"epochs": "one"}),
    ("weights_top1", "red", {"weights": "top1"}),
    ("weights_uniform", "red", {"weights": "uniform"}),
    ("experts_mlp", "red", {"experts": "mlp"}),
    ("experts_linear", "red", {"experts": "linear"}),
    # two and three of these changes together: with the single ones, every combination of CROSSED
    ("dropped_tenth", "base_dropped", {"scale": 0.1}),
    ("dropped_answer", "base_dropped", {"target": "answer"}),
    ("tenth_answer", "scale_tenth", {"target": "answer"}),
    ("dropped_tenth_answer", "dropped_tenth", {"target": "answer"}),
    # RED's experts without h, trained without it too
    ("base_never", "base_dropped", {"experts": "residual_alone"}),
    # step by step to the mixture (the source, 4.3.4), and on to one with a linear gate of one epoch
    ("mlp_mixture", "experts_mlp", {"base_term": "dropped"}),
    ("linear_mixture", "mlp_mixture", {"experts": "linear"}),
    ("softmax_moe", "linear_mixture", {"target": "answer"}),
    ("moe_linear_gate", "softmax_moe", {"router": "linear"}),
    ("moe_one_epoch", "moe_linear_gate", {"epochs": "one"}),
    # one change from the mixture
    ("moe_with_base", "softmax_moe", {"base_term": "kept"}),
    ("moe_mlp", "softmax_moe", {"experts": "mlp"}),
    ("moe_top1", "softmax_moe", {"weights": "top1"}),
    ("moe_uniform", "softmax_moe", {"weights": "uniform"}),
    # the authors' public code: a tenth of MLP experts' logits, trained on top of the base, and a linear router
    ("red_logit_scale", "experts_linear", {"scale": 0.1}),
    ("public_two_layer", "red_logit_scale", {"experts": "mlp_on_base"}),
    ("public_red", "public_two_layer", {"router": "linear"}),
    ("public_all", "public_red", {"weights": "all"}),
    ("public_scale_one", "public_red", {"scale": 1.0}),
    ("public_no_base", "public_scale_one", {"base_term": "dropped"}),
    ("public_answer", "public_no_base", {"target": "answer"}),
    ("public_moe", "public_answer", {"epochs": "one"}),
)
PATH = ("red", "experts_mlp", "mlp_mixture", "linear_mixture", "softmax_moe", "moe_linear_gate", "moe_one_epoch")
PUBLIC_PATH = ("public_red", "public_scale_one", "public_no_base", "public_answer", "public_moe")
CROSSED = {"base_term": ("kept", "dropped"), "scale": (1.0, 0.1), "target": ("range", "answer")}  # as in RED, and not


def crossed() -> dict[tuple, str]:
    """The arm of every combination of CROSSED with RED's trained experts: {(base term, scale, target): name}."""
    alike = [arm for arm in ARMS.values() if arm.changes(ARMS["red"]).keys() <= CROSSED.keys()]
    named = {tuple(getattr(arm, setting) for setting in CROSSED): arm.name for arm in alike}
    return {levels: named[levels] for levels in product(*CROSSED.values())}


def combine(arm: Arm, classifier: nn.Module, h: Tensor, said: Tensor) -> Tensor:
    """Logits (..., B, C) from h (..., B, d) and what the experts say, scaled: corrections (..., B, d) or logits."""
    if arm.corrects:
        return classifier(h + said if arm.base_term == "kept" else said)
    return classifier(h) + said if arm.base_term == "kept" else said


class ArmModel(Method):
    """One trained arm of one seed, from the parts base, classifier, experts (K members of the arm's kind) and router.

    `scale` is the number of an arm whose scale is learned, `K` that of experts, by default one a range. ValueError when
    router or experts do not fit the arm.
    """

    needs = ("classifier", "experts", "router")
    router = "router"

    def __init__(
        self,
        labels: LabelSpace,
        parts: dict[str, nn.Module],
        arm: Arm,
        scale: float | None = None,
        K: int | None = None,
    ):
        super().__init__(labels, parts, K, weights=arm.weights)
        self.arm, self.scale = arm, arm.scale if scale is None else scale
        outputs, kind = parts["router"].shape["out"], type(parts["experts"]).__name__
        if outputs != self.K:
            raise ValueError(f"arm {arm.name!r}: the router chooses among {outputs} experts, but there are {self.K}")
        if isinstance(parts["experts"], ResidualExperts) != arm.corrects:
            raise ValueError(f"arm {arm.name!r} needs experts of kind {arm.experts!r}, got a {kind}")
        if self.scale == "learned":
            raise ValueError(f"arm {arm.name!r} has a learned scale; pass its value as scale")

    def route(self, x: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """h (B, d) and the weights (B, K), which sum to one but for `all`."""
        if self.arm.weights != "all":
            return super().route(x)
        h = self.hidden(x)
        return h, h.new_ones(len(h), self.K)

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h, alpha = self.route(x)
        said = self.scale * mix(alpha, self.parts["experts"](h))
        logits = combine(self.arm, self.parts["classifier"], h, said)
        return Output(logits[0] if logits.dim() == 3 else logits, alpha)


class SoloExperts(nn.Module):
    """Experts as an arm uses them, each at weight one: h (S, B, d), or (B, d) for all -> logits (S, B, C).

    The mixture of these logits by weights that sum to one is what ArmModel answers.
    """

    def __init__(self, arm: Arm, experts: nn.Module, classifier: nn.Module):
        super().__init__()
        self.arm, self.experts, self.classifier = arm, experts, classifier.requires_grad_(False)

    def forward(self, h: Tensor) -> Tensor:
        return combine(self.arm, self.classifier, h, self.arm.trained_scale * self.experts(h))


class MixedLogits(nn.Module):
    """A gate over frozen experts whose logits are given: x (S, B, d), each (S, B, K, C) -> logits (S, B, C)."""

    def __init__(self, base: nn.Module, gate: nn.Module):
        super().__init__()
        self.base, self.gate = base.requires_grad_(False), gate

    def forward(self, x: Tensor, each: Tensor) -> Tensor:
        return torch.einsum("sbk,sbkc->sbc", torch.softmax(self.gate(self.base(x)), -1), each)
