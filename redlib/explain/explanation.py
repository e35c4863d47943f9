"""What `explain` returns: one question, one method's answer, and everything that the answer is made of."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_softmax

from redlib.explain.intervention import NOTHING, Intervention
from redlib.explain.seen import Neighbour
from redlib.expressions import Expression, LabelSpace


@dataclass(frozen=True)
class Answer:
    """What one method says: the likeliest value with its probability, the range with the largest sum of
    probabilities, and its routing weights (K), None without a router."""

    method: str
    value: int
    probability: float
    range: str
    range_probability: float
    alpha: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class Expert:
    """One expert's part in an answer. norm: length of what it adds at weight 1 (a correction to h, or a head's logits).

    to_others (K,), to_sum: cosines to what the others add at weight 1, and to the weighted sum of all; 0 for a part of
    no length. contribution (C,): what it adds to every value's logit at weight 1. alone: the answer if it had weight 1
    and the others none; truth: the probability of the true value then, None where that is not known.
    """

    name: str
    weight: float
    norm: float
    to_others: tuple[float, ...]
    to_sum: float
    contribution: np.ndarray
    alone: Answer
    truth: float | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """One question and one method's answer under an intervention. C values, K ranges and experts.

    For a method whose logits are a sum over experts, logits = base_logits + sum_i weight_i * contribution_i; for
    another, `experts` is empty and base_logits are its logits. `methods`: every method's untouched answer, from the
    same text. `seen`: whether the structure was in the model's training rows, None where the text was not parsed.

    Where the classifier is a Fourier readout, by_period (1 + K, P, C) is what each of its P `periods` adds to every
    logit: for the shared h, then for each expert at weight 1.
    """

    text: str
    tokens: tuple[str, ...]
    expression: Expression | None
    labels: LabelSpace
    method: str
    model: str
    intervention: Intervention
    answer: Answer
    logits: np.ndarray
    base_logits: np.ndarray
    probabilities: np.ndarray
    range_probabilities: np.ndarray
    experts: tuple[Expert, ...]
    methods: tuple[Answer, ...]
    seen: bool | None
    nearest: tuple[Neighbour, ...]
    notes: tuple[str, ...] = field(default=())
    periods: tuple[float, ...] = ()
    by_period: np.ndarray | None = None

    @property
    def true_value(self) -> int | None:
        """The exact value of the text; None where it is not read."""
        return None if self.expression is None else self.expression.value

    @property
    def true_range(self) -> str | None:
        """The range of the true value; None where it is not known or outside the label space."""
        value = self.true_value
        if value is None or not self.labels.lo <= value <= self.labels.hi:
            return None
        return self.labels.names[self.labels.range_of(value)]

    @property
    def right(self) -> bool | None:
        """Whether the answer is the true value; None where that is not known."""
        return None if self.true_value is None else self.answer.value == self.true_value

    @property
    def alpha(self) -> tuple[float, ...] | None:
        """The answer's routing weights, one an expert; None for a method without."""
        return self.answer.alpha

    @property
    def entropy(self) -> float:
        """Of the value probabilities, in bits: 0 for certainty, log2 C for none."""
        p = self.probabilities[self.probabilities > 0].astype(float)
        return float(-(p * np.log2(p)).sum())

    @property
    def best_expert(self) -> Expert | None:
        """The expert that alone gives the true value the largest probability; None where no true value is known."""
        known = [expert for expert in self.experts if expert.truth is not None]
        return max(known, key=lambda expert: expert.truth, default=None)

    @property
    def regret(self) -> float | None:
        """Log-probability (nats) of the true value that is lost against the best single expert; below 0 where the
        mixture does better than every expert alone. None as `best_expert`."""
        best = self.best_expert
        if best is None:
            return None
        index = self.labels.index(self.true_value)
        return _log_probability(self.base_logits + best.contribution, index) - _log_probability(self.logits, index)

    def top(self, n: int = 5) -> list[tuple[int, float]]:
        """The n likeliest values with their probabilities."""
        first = np.argsort(-self.probabilities, kind="stable")[:n]
        return [(int(self.labels.lo + i), float(self.probabilities[i])) for i in first]

    def waterfall(self, value: int | None = None) -> dict[str, float]:
        """How the logit of a value (default: the answer) comes about: "shared", then what each expert adds at its
        weight; they add up to the logit. ValueError for a value outside the label space."""
        index = self.labels.index(self.answer.value if value is None else value)
        steps = {expert.name: expert.weight * float(expert.contribution[index]) for expert in self.experts}
        return {"shared": float(self.base_logits[index]), **steps}

    def components(self, value: int | None = None) -> dict[str, dict[float, float]]:
        """What every period of a Fourier readout adds to the logit of a value (default: the answer), for "shared" and
        for each expert at its weight: all of them add up to the logit. Empty without such a readout; ValueError for a
        value outside the label space."""
        if self.by_period is None:
            return {}
        at = self.by_period[:, :, self.labels.index(self.answer.value if value is None else value)]
        weights = (1.0, *(expert.weight for expert in self.experts))
        names = ("shared", *(expert.name for expert in self.experts))
        return {
            name: {period: weight * float(x) for period, x in zip(self.periods, row, strict=True)}
            for name, weight, row in zip(names, weights, at, strict=True)
        }

    def period_waterfall(self, value: int | None = None) -> dict[float, float]:
        """`components` summed over shared and experts: {period: what it adds to the logit}."""
        parts = self.components(value).values()
        return {period: sum(part[period] for part in parts) for period in self.periods}

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `to_json` writes."""
        names, change = self.labels.names, self.intervention.changes
        best = self.best_expert
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "expression": None if self.expression is None else self.expression.text,
            "true_value": self.true_value,
            "true_range": self.true_range,
            "model": self.model,
            "method": self.method,
            "intervention": change,
            "prediction": _plain(self.answer),
            "right": self.right,
            "alpha": None if self.alpha is None else _named(names, self.alpha),
            "top": [{"value": value, "probability": _round(p)} for value, p in self.top()],
            "ranges": _named(names, self.range_probabilities),
            "entropy": _round(self.entropy),
            "experts": {expert.name: _expert(expert, names) for expert in self.experts},
            "best_expert": None if best is None else {"name": best.name, "value": best.alone.value},
            "contributions": {
                "values": [self.labels.lo, self.labels.hi],
                "base": _list(self.base_logits),
                **{expert.name: _list(expert.contribution) for expert in self.experts},
                "logits": _list(self.logits),
            },
            "methods": {answer.method: {**_plain(answer), "alpha": _alpha(names, answer)} for answer in self.methods},
            "seen": self.seen,
            "nearest": [{"structure": near.structure, "distance": near.distance} for near in self.nearest],
            "notes": list(self.notes),
        } | ({"components": _components(self)} if self.periods else {})

    def to_json(self) -> str:
        """JSON of `to_dict`; contributions are at weight 1: base + sum_i alpha_i * contribution_i = logits."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)

    def code(self) -> str:
        """The call behind this explanation, as Python."""
        method = "" if self.method == "red" else f", method={self.method!r}"
        changes = ", ".join(f"{name}={value!r}" for name, value in self.intervention.changes.items())
        change = f", intervention=explain.Intervention({changes})" if self.intervention != NOTHING else ""
        return f"explainer.explain({self.text!r}{method}{change})"

    def card(self, width: int = 80) -> str:
        """A readable card for a terminal, weights and probabilities as bars."""
        from redlib.explain.card import card

        return card(self, width)


def _log_probability(logits: np.ndarray, index: int) -> float:
    return float(log_softmax(logits.astype(float))[index])


def _round(number: float) -> float:
    return round(float(number), 6)


def _list(numbers) -> list[float]:
    return [_round(number) for number in numbers]


def _named(names, numbers) -> dict[str, float]:
    return dict(zip(names, _list(numbers), strict=True))


def _plain(answer: Answer) -> dict[str, Any]:
    return {"value": answer.value, "range": answer.range, "probability": _round(answer.probability)}


def _alpha(names, answer: Answer) -> dict[str, float] | None:
    return None if answer.alpha is None else _named(names, answer.alpha)


def _components(e: Explanation) -> dict[str, dict[str, float]]:
    return {name: {f"{p:g}": _round(x) for p, x in row.items()} for name, row in e.components().items()}


def _expert(expert: Expert, names) -> dict[str, Any]:
    return {
        "weight": _round(expert.weight),
        "norm": _round(expert.norm),
        "cosine_to_sum": _round(expert.to_sum),
        "cosine_to_others": _named(names, expert.to_others),
        "alone": _plain(expert.alone),
        "truth": None if expert.truth is None else _round(expert.truth),
    }
