"""`Explainer.explain(text)`: one backbone pass, then everything that the answer of a trained method is made of.

Nothing here draws or prints. A `Reading` keeps what the backbone said, so that an intervention needs no second pass.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import torch
from torch import Tensor

from redlib import features, models
from redlib.backbone import Backbone
from redlib.explain import notes
from redlib.explain.additive import Additive, decompose
from redlib.explain.explanation import Answer, Expert, Explanation
from redlib.explain.intervention import NOTHING, Intervention
from redlib.explain.model import Model
from redlib.expressions import Expression, LabelSpace
from redlib.features import Point
from redlib.models import Output, range_probabilities

CHUNK = 256  # texts whose parts are computed together
PLUS = tuple(models.PLUS)
PLUS_ROUTED = tuple(name for name in PLUS if "experts" in models.needs([name]))


@dataclass(frozen=True, eq=False)
class View:
    """What one split's model makes of a text: every method's answer, logits (C,), and sum where it is one."""

    answers: dict[str, Answer]
    logits: dict[str, Tensor]
    sums: dict[str, Additive]


@dataclass(frozen=True, eq=False)
class Reading:
    """A text as the backbone read it for an explainer, the `reader`: pooled features (1, d), or token states (1, T, d)
    and mask; `views` by split, `plus` what `red_plus` read of it, once it was asked."""

    text: str
    tokens: tuple[str, ...]
    expression: Expression | None
    notes: tuple[str, ...]
    x: Tensor | tuple[Tensor, ...]
    reader: "Explainer" = field(repr=False)
    views: dict[str, View] = field(default_factory=dict, repr=False)
    plus: list["Reading"] = field(default_factory=list, repr=False)


@dataclass(frozen=True, eq=False)
class Explainer:
    """A backbone and the models of a task that read it; `models` are opened when a split is first asked for.

    `point` is where features are read; with `tuned_layers` the bases read token states below that many top layers,
    with `tokens` those of the point's layer. `plus` opens the explainer of `red_plus`, which reads elsewhere: that is
    done when one of its methods is asked for, not before.
    """

    backbone: Backbone
    task: str
    labels: LabelSpace
    operands: tuple[int, int]
    point: Point
    tuned_layers: int
    models: Mapping[str, Callable[[], Model]]
    split: str = "structure"
    tokens: bool = False
    plus: Callable[[], "Explainer"] | None = None
    _opened: dict[str, Model] = field(default_factory=dict, init=False, repr=False)
    _others: dict[str, "Explainer"] = field(default_factory=dict, init=False, repr=False)

    def model(self, split: str | None = None) -> Model:
        """The model of a split (default: the explainer's own); ValueError names the splits there are."""
        split = split or self.split
        if split not in self.models:
            raise ValueError(f"no model of split {split!r}; there are models of: {', '.join(self.models)}")
        if split not in self._opened:
            with torch.inference_mode(False), torch.enable_grad():  # opening may train
                self._opened[split] = self.models[split]()
        return self._opened[split]

    @property
    def methods(self) -> list[str]:
        """Every method that can be explained."""
        return [*self.model().methods, *(PLUS if self.plus else ())]

    @property
    def routed(self) -> list[str]:
        """The methods whose answers are sums over experts."""
        return [*self.model().routed, *(PLUS_ROUTED if self.plus else ())]

    def explain(
        self, question: str | Reading, method: str = "red", intervention: Intervention = NOTHING
    ) -> Explanation:
        """All that a method's answer to one question is made of. A `Reading` of the text saves the backbone pass.

        Any text gets an answer, with notes where it is not what the model was made for. ValueError in one sentence for
        a text that is empty, no string or over 256 tokens, for an unknown method, for an intervention that cannot
        be applied, and for the reading of another explainer.
        """
        reading = question if isinstance(question, Reading) else self.read([question])[0]
        return self._explain(reading, method, intervention)

    def explain_all(
        self, questions: Iterable[str | Reading], method: str = "red", intervention: Intervention = NOTHING
    ) -> list[Explanation]:
        """`explain` for many texts, with one pass for all of them; ValueError as there, and for a text that stands
        alone."""
        if isinstance(questions, str):
            raise ValueError(f"many questions are asked for, got the one {questions!r}; explain takes one")
        questions = list(questions)
        texts = [question for question in questions if not isinstance(question, Reading)]
        made = iter(self.read(texts) if texts else ())
        readings = [question if isinstance(question, Reading) else next(made) for question in questions]
        if method in PLUS and self.plus:
            self._read_plus(readings)
        return [self._explain(reading, method, intervention) for reading in readings]

    @torch.inference_mode()
    def read(self, texts: Sequence[str]) -> list[Reading]:
        """What the backbone and this split's model make of texts; what `explain` raises for a text."""
        clean = [notes.readable(notes.check_text(text)) for text in texts]
        words = [text for text, _ in clean]
        ids = self.backbone.encode(words)
        for text, of_text in zip(words, ids, strict=True):
            notes.check_length(text, len(of_text))
        readings = []
        for first in range(0, len(words), CHUNK):
            rows = slice(first, first + CHUNK)
            x = self._features(words[rows])
            made = [self._reading(*row, x) for row in zip(range(CHUNK), clean[rows], ids[rows], strict=False)]
            self._look(made, x, self.split)
            readings += made
        return readings

    def _features(self, texts: list[str]) -> Tensor | tuple[Tensor, ...]:
        if self.tuned_layers or self.tokens:
            layer = self.point.layer if self.tokens else -1 - self.tuned_layers
            return features.token_states(self.backbone, texts, layer).batch(range(len(texts)))
        return torch.from_numpy(features.compute(self.backbone, texts, [self.point])[self.point])

    def _reading(self, row: int, clean: tuple[str, tuple[str, ...]], ids: list[int], x) -> Reading:
        text, odd = clean
        expression, unread = notes.read(text)
        found = (*odd, *unread, *notes.about(text, expression, self.task, self.operands, self.labels))
        tokens = tuple(self.backbone.tokenizer.decode([token]) for token in ids)
        own = tuple(t[row : row + 1, : len(ids)] for t in x) if isinstance(x, tuple) else x[row : row + 1]
        return Reading(text, tokens, expression, found, own, self)

    def _look(self, readings: Sequence[Reading], x: Tensor | tuple[Tensor, ...], split: str) -> None:
        """Give every reading its view by one split's model; x are the features of all of them."""
        model = self.model(split)
        h = model.parts["base"](*x) if isinstance(x, tuple) else model.parts["base"](x)
        h = h[0] if h.dim() == 3 else h
        ranges = [self._range(reading) for reading in readings]
        asked = torch.tensor([k or 0 for k in ranges])  # the oracle's answer to an unknown range is not kept
        model.consider(h)
        outputs = {name: method(h, asked) for name, method in model.methods.items()}
        sums = decompose(model.methods, h, outputs)
        answers = self._answers(outputs)
        for i, reading in enumerate(readings):
            known = [name for name in outputs if name != "oracle_experts" or ranges[i] is not None]
            reading.views[split] = View(
                answers={name: answers[name][i] for name in known},
                logits={name: outputs[name].logits[i] for name in known},
                sums={name: parts[i] for name, parts in sums.items()},
            )

    def _range(self, reading: Reading) -> int | None:
        """The true range (0-based), which only the oracle reads."""
        value = None if reading.expression is None else reading.expression.value
        inside = value is not None and self.labels.lo <= value <= self.labels.hi
        return self.labels.range_of(value) if inside else None

    def _answers(self, outputs: Mapping[str, Output]) -> dict[str, list[Answer]]:
        """Answers of B texts by method, from every method's logits (B, C) and weights (B, K) or None."""
        logits = torch.cat([output.logits for output in outputs.values()])
        best, index = torch.softmax(logits, -1).max(-1)
        range_best, k = range_probabilities(logits, self.labels).max(-1)
        rows = zip(index.tolist(), best.tolist(), k.tolist(), range_best.tolist(), strict=True)
        said = {}
        for name, output in outputs.items():
            weights = [None] * len(output.logits) if output.alpha is None else output.alpha.tolist()
            said[name] = [
                Answer(name, self.labels.lo + value, p, self.labels.names[r], range_p, alpha and tuple(alpha))
                for alpha, (value, p, r, range_p) in zip(weights, islice(rows, len(weights)), strict=True)
            ]
        return said

    def _opened_plus(self) -> "Explainer":
        if PLUS[0] not in self._others:
            with torch.inference_mode(False), torch.enable_grad():  # opening may train
                self._others[PLUS[0]] = self.plus()
        return self._others[PLUS[0]]

    def _read_plus(self, readings: Sequence[Reading]) -> None:
        """Give every reading what `red_plus` reads of its text, in one pass for those that lack it."""
        lacking = [reading for reading in readings if not reading.plus]
        made = self._opened_plus().read([reading.text for reading in lacking]) if lacking else []
        for reading, own in zip(lacking, made, strict=True):
            reading.plus.append(replace(own, notes=reading.notes))

    def _explain_plus(self, reading: Reading, method: str, change: Intervention) -> Explanation:
        self._read_plus([reading])
        found = self._opened_plus()._explain(reading.plus[0], method, change)
        return replace(found, methods=(*reading.views[self.split].answers.values(), *found.methods))

    @torch.inference_mode()
    def _explain(self, reading: Reading, method: str, change: Intervention) -> Explanation:
        if reading.reader is not self:
            raise ValueError(
                f"another explainer ({reading.reader.task}) read {reading.text!r}: a reading serves its own"
            )
        if method in PLUS and self.plus:
            return self._explain_plus(reading, method, change)
        split, labels = change.split or self.split, self.labels
        model = self.model(split)
        if split not in reading.views:
            self._look([reading], reading.x, split)
        view = reading.views[split]
        change.check(labels)
        _check_method(method, self, model, view, change)
        base = logits = view.logits[method]
        answer, experts, periods, by_period = view.answers[method], (), (), None
        if method in view.sums:
            parts = view.sums[method]
            weights = parts.weights(change)
            vectors, contributions = parts.changed(change, labels)
            base = parts.base
            if change.changes.keys() - {"split", "noise_seed"}:
                logits = base + weights @ contributions
                answer = self._answers({method: Output(logits[None], weights[None])})[method][0]
            experts = self._experts(base, weights, vectors, contributions, self._true_index(reading))
            if parts.by_period is not None:
                periods, by_period = parts.by_period.periods, parts.by_period.parts(vectors).numpy().copy()
        known = reading.expression is not None
        return Explanation(
            text=reading.text,
            tokens=reading.tokens,
            expression=reading.expression,
            labels=labels,
            method=method,
            model=model.name,
            intervention=change,
            answer=answer,
            logits=logits.numpy().copy(),
            base_logits=base.numpy().copy(),
            probabilities=torch.softmax(logits, -1).numpy(),
            range_probabilities=range_probabilities(logits[None], labels)[0].numpy(),
            experts=experts,
            methods=tuple(view.answers.values()),
            seen=reading.expression in model.seen if known else None,
            nearest=model.seen.nearest(reading.expression) if known else (),
            notes=(*reading.notes, *_of_change(change)),
            periods=periods,
            by_period=by_period,
        )

    def _true_index(self, reading: Reading) -> int | None:
        return None if self._range(reading) is None else self.labels.index(reading.expression.value)

    def _experts(self, base: Tensor, weights: Tensor, vectors: Tensor, added: Tensor, true: int | None):
        """One `Expert` a row of vectors (K, m) and contributions `added` (K, C)."""
        norms = vectors.norm(dim=1)
        unit = vectors / norms.clamp_min(1e-12)[:, None]
        total = weights @ vectors
        to_sum = (unit @ (total / total.norm().clamp_min(1e-12))).tolist()
        others, alone = (unit @ unit.T).tolist(), base + added
        truth = [None] * len(weights) if true is None else torch.softmax(alone, -1)[:, true].tolist()
        said = self._answers({"alone": Output(alone, torch.eye(len(weights)))})["alone"]
        rows = zip(self.labels.names, weights.tolist(), norms.tolist(), others, to_sum, added, said, truth, strict=True)
        return tuple(Expert(n, w, size, tuple(o), s, c.numpy().copy(), a, t) for n, w, size, o, s, c, a, t in rows)


def _check_method(method: str, explainer: Explainer, model: Model, view: View, change: Intervention) -> None:
    if method not in model.methods:
        valid = ", ".join([*model.methods, *(PLUS if explainer.plus else ())])
        raise ValueError(f"unknown method {method!r}; methods of {model.name}: {valid}")
    if method not in view.answers:
        raise ValueError(f"{method} needs the true range, and the text does not give one inside the label space")
    if method not in view.sums and change.changes.keys() - {"split"}:
        raise ValueError(
            f"{method} is no sum over experts, so that only its split can be changed; those that are: "
            f"{', '.join(model.routed)}"
        )


def _of_change(change: Intervention) -> Iterator[str]:
    total = 1.0 if change.weights is None else sum(change.weights)
    if abs(total - 1) >= 1e-6:
        yield f"the weights add up to {total:.3f}, not 1"
    for expert in change.idle:
        yield f"{expert} is dropped, so that its scale and noise change nothing"
