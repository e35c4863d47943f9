"""An explanation as plain text for a terminal."""

import textwrap
from collections.abc import Iterator

from redlib.explain.explanation import Answer, Explanation

BAR = 24  # characters of a full bar


def card(e: Explanation, width: int = 80) -> str:
    """Question, answer, weights and probabilities as bars, experts, methods, training structures, notes."""
    blocks = [_head(e), _ranges(e), _experts(e), _periods(e), _values(e), _methods(e), _training(e)]
    lines = [line for block in blocks for line in block]
    for note in e.notes:
        lines += textwrap.wrap(f"note: {note}", width, subsequent_indent="      ")
    return "\n".join(lines)


def _bar(share: float) -> str:
    return "█" * round(min(max(share, 0.0), 1.0) * BAR)


def _plain(text: str) -> str:
    """A text on one line, with what a terminal would obey written as Python writes it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _head(e: Explanation) -> Iterator[str]:
    yield _plain(e.text)
    yield f"model    {e.model}"
    yield f"tokens   {'|'.join(map(_plain, e.tokens))}"
    verdict = {True: "right", False: "wrong", None: "no true value known"}[e.right]
    truth = "" if e.expression is None else f"{e.expression.text} = {e.true_value}; "
    yield f"answer   {_said(e.answer)} by {e.method}  ({truth}{verdict})"
    if e.intervention.changes:
        yield "changed  " + ", ".join(f"{name}={value}" for name, value in e.intervention.changes.items())
    yield ""


def _said(answer: Answer) -> str:
    return f"{answer.value} with probability {answer.probability:.3f}, range {answer.range}"


def _ranges(e: Explanation) -> Iterator[str]:
    alpha = e.alpha
    yield f"{'':14}{'probability':13}" + ("" if alpha is None else "weight")
    for k, (name, (low, high)) in enumerate(zip(e.labels.names, e.labels.bounds, strict=True)):
        weight = "" if alpha is None else f"{alpha[k]:.3f} {_bar(alpha[k])}"
        yield f"  {name} {f'{low}-{high}':8} {e.range_probabilities[k]:.3f}        {weight}".rstrip()
    yield ""


def _experts(e: Explanation) -> Iterator[str]:
    if not e.experts:
        return
    steps, value = e.waterfall(), e.answer.value
    yield f"expert    length  cosine to sum  adds to the logit of {value}   alone it says"
    yield f"  shared  {'':23}{steps['shared']:+9.3f}"
    for expert in e.experts:
        alone = f"{expert.alone.value} ({expert.alone.probability:.3f})"
        yield f"  {expert.name:6}{expert.norm:8.2f}{expert.to_sum:+15.3f}  {steps[expert.name]:+9.3f}{'':18}{alone}"
    yield f"  sum     {'':23}{sum(steps.values()):+9.3f}"
    best = e.best_expert
    if best is not None:
        yield f"  best single expert for the true value: {best.name}, which says {best.alone.value}"
    yield ""


def _periods(e: Explanation) -> Iterator[str]:
    if not e.periods:
        return
    parts = e.components()
    yield f"period    adds to the logit of {e.answer.value}   shared   experts"
    for period, total in e.period_waterfall().items():
        shared = parts["shared"][period]
        yield f"  {period:<8g}{total:+19.3f}{shared:+9.3f}{total - shared:+10.3f}"
    yield ""


def _values(e: Explanation) -> Iterator[str]:
    yield f"values    (entropy {e.entropy:.2f} bits)"
    for value, probability in e.top():
        yield f"  {value:<7} {probability:.3f} {_bar(probability)}".rstrip()
    yield ""


def _methods(e: Explanation) -> Iterator[str]:
    yield "methods on the same text"
    for answer in e.methods:
        weights = "" if answer.alpha is None else "  weights " + " ".join(f"{weight:.2f}" for weight in answer.alpha)
        yield f"  {answer.method:22} {answer.value:>4} ({answer.probability:.3f})  {answer.range}{weights}"
    yield ""


def _training(e: Explanation) -> Iterator[str]:
    if e.seen is None:
        return
    known = "was" if e.seen else "was not"
    near = ", ".join(f"{near.structure} ({near.distance})" for near in e.nearest) or "none of this form"
    yield f"training {e.expression.structure_key} {known} in it; nearest, with their distance: {near}"
