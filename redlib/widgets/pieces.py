"""What the widgets show: pure functions from an explanation to a piece of HTML."""

import html
from collections.abc import Mapping, Sequence
from itertools import accumulate

from redlib.explain import Answer, Explanation, Tipping, easiest
from redlib.widgets.svg import BLUE, GREY, HATCH, ORANGE, band, box, line, picture, text

SCALES = (0.05, 0.1, 0.2, 0.5, 1.0)  # tops of the axis of probabilities
Beside = tuple[str, Sequence[float]]  # whose weights, and the weights


def said(answer: Answer) -> str:
    """An answer in words."""
    return f"{answer.value} with probability {answer.probability:.3f}, range {answer.range}"


def verdict(e: Explanation, before: Explanation | None = None) -> str:
    """The answer, whether it is right, and what it was before an intervention."""
    truth = "no true value known" if e.expression is None else f"{e.expression.text} = {e.true_value}"
    mark = {True: "✓ right", False: "✗ wrong", None: ""}[e.right]
    was = "" if before is None else f"; before: {said(before.answer)}"
    return (
        f'<div class="red-verdict" data-value="{e.answer.value}"><b>{html.escape(e.method)}</b> says '
        f'<b style="font-size:150%">{e.answer.value}</b> with probability {e.answer.probability:.3f}, range '
        f"{e.answer.range} <b>{mark}</b> ({html.escape(truth)}{was})</div>"
    )


def weights(e: Explanation, beside: Beside | None = None) -> str:
    """A bar for each routing weight (range probability, for a method without a router), over those of `beside`."""
    shown = e.range_probabilities if e.alpha is None else e.alpha
    title = "range probabilities" if e.alpha is None else "routing weights"
    also = [None] * len(shown) if beside is None or e.alpha is None else beside[1]
    heading = title + ("" if also[0] is None else f" (hatched: {beside[0]})")
    parts, words = [HATCH, text(0, 12, heading, more='font-weight="bold"')], []
    rows = zip(e.labels.names, e.labels.bounds, shown, also, strict=True)
    for k, (name, (low, high), weight, other) in enumerate(rows):
        y = 20 + 28 * k
        parts += [
            text(0, y + 14, f"{name}  {low}-{high}"),
            box(78, y + 2, 170 * min(max(weight, 0), 1), 10, BLUE),
            text(255, y + 11, f"{weight:.3f}", more=f'class="red-weight" data-expert="{name}"'),
        ]
        words.append(f"{name} {weight:.3f}")
        if other is not None:
            parts.append(box(78, y + 13, 170 * min(max(other, 0), 1), 7, "url(#down)"))
            parts.append(text(295, y + 20, f"{other:.2f}", more=f'class="red-beside" data-expert="{name}"'))
            words[-1] += f" ({other:.2f})"
    return picture(330, 28 + 28 * len(shown), f"{heading}: {', '.join(words)}", parts)


def waterfall(e: Explanation) -> str:
    """How the answer's logit adds up, by expert, and beside it by period of a Fourier readout where there is one."""
    drawn = _steps(f"logit of {e.answer.value}", e.waterfall())
    if not e.periods:
        return drawn
    periods = {f"{period:g}": x for period, x in e.period_waterfall().items()}
    return f'<div style="display:flex">{drawn}{_steps(f"logit of {e.answer.value}, by period", periods)}</div>'


def _steps(title: str, steps: Mapping[str, float]) -> str:
    """Bars that start where the one before ends, then their sum."""
    ends = list(accumulate(steps.values()))
    starts = [0.0, *ends[:-1]]
    bars = [*zip(steps, starts, ends, steps.values(), strict=True), ("sum", 0.0, ends[-1], ends[-1])]
    low, high = min(0.0, *ends), max(0.0, *ends)
    per, width, foot = 118 / max(high - low, 1e-9), 330 / len(bars), 150
    parts = [HATCH, text(0, 12, f"{title} (blue adds, hatched takes away)", more='font-weight="bold"')]
    for place, (name, start, end, value) in enumerate(bars):
        x, top = place * width + 3, foot - (max(start, end) - low) * per
        fill = GREY if name in ("shared", "sum") else BLUE if value >= 0 else "url(#down)"
        parts.append(box(x, top, width - 6, max(abs(end - start) * per, 0.8), fill))
        parts.append(text(x + width / 2 - 3, top - 3, f"{value:+.2f}", "middle", 'font-size="9"'))
        parts.append(text(x + width / 2 - 3, 164, name, "middle"))
    parts.append(line(0, foot + low * per, 330, foot + low * per))
    return picture(330, 168, f"{title}: " + ", ".join(f"{name} {value:+.2f}" for name, *_, value in bars), parts)


def distribution(e: Explanation, before: Explanation | None = None) -> str:
    """The probability of every value, with bands for the ranges; a line has what it was `before`, dots the truth."""
    lo, C, left, foot = e.labels.lo, e.labels.C, 30, 148
    step, p = 640 / C, [float(x) for x in e.probabilities]
    largest = max(*p, 0.0 if before is None else float(before.probabilities.max()))
    top = next((scale for scale in SCALES if largest <= scale), 1.0)
    parts = [text(left, 10, "probability of every value (dotted: the true one)", more='font-weight="bold"')]
    for k, (first, last) in enumerate(e.labels.bounds):
        x, wide = left + (first - lo) * step, (last - first + 1) * step
        parts.append(band(x, 26, wide, foot - 26, k))
        parts.append(text(x + wide / 2, 23, f"{e.labels.names[k]} {e.range_probabilities[k]:.2f}", "middle"))
        parts.append(text(x + step / 2, 160, f"{first}", "middle"))
    heights = [min(x / top, 1) * (foot - 30) for x in p]
    parts += [
        box(left + i * step, foot - tall, step * 0.85, tall, BLUE) for i, tall in enumerate(heights) if tall > 0.05
    ]
    if before is not None:
        points = ((left + (i + 0.4) * step, foot - x / top * (foot - 30)) for i, x in enumerate(before.probabilities))
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{ORANGE}" stroke-width="1.2"/>')
    if e.true_range is not None:
        x = left + (e.true_value - lo + 0.4) * step
        parts.append(line(x, 26, x, foot, 'stroke-dasharray="2 2"'))
    parts += [line(left, foot, left + 640, foot), text(left - 3, 34, f"{top:g}", "end")]
    parts += [text(left - 3, foot, "0", "end"), text(left + 640, 160, f"{e.labels.hi}", "end")]
    words = ", ".join(f"{value} {probability:.3f}" for value, probability in e.top())
    return picture(680, 168, f"probability of every value, the largest: {words}", parts)


def methods(e: Explanation) -> str:
    """Every method's untouched answer to the same features, in a row; the one that is explained has a frame."""
    cells = "".join(_method(e, answer) for answer in e.methods)
    return f'<div style="display:flex;gap:4px" role="list" aria-label="methods compared">{cells}</div>'


def _method(e: Explanation, answer: Answer) -> str:
    right = e.true_value is not None and answer.value == e.true_value
    mark = "" if e.true_value is None else " ✓" if right else " ✗"
    frame = "2px solid currentColor" if answer.method == e.method else "1px solid " + GREY
    alpha = answer.alpha or ()
    bars = (box(14 * k, 24 - 24 * min(max(a, 0), 1), 11, 24 * min(max(a, 0), 1), BLUE) for k, a in enumerate(alpha))
    words = ", ".join(f"{name} {a:.2f}" for name, a in zip(e.labels.names, alpha, strict=bool(alpha)))
    drawn = picture(14 * e.labels.K, 25, f"weights: {words}" if words else "no weights", bars)
    return (
        f'<div role="listitem" class="red-method" data-method="{answer.method}" style="border:{frame};padding:2px 5px;'
        f'line-height:1.3;min-width:92px;font-size:11px">{html.escape(answer.method)}<br>'
        f"<b>{answer.value}{mark}</b> ({answer.probability:.2f}) {answer.range}<br>{drawn}</div>"
    )


def notes(e: Explanation) -> str:
    """Tokens, training structures, the best single expert, and the notes of the question."""
    lines = [f"tokens: {' | '.join(e.tokens)}"]
    if e.seen is not None:
        near = ", ".join(f"{near.structure} ({near.distance})" for near in e.nearest) or "none of this form"
        lines.append(f"training {'has' if e.seen else 'does not have'} {e.expression.structure_key}; nearest: {near}")
    if e.best_expert is not None:
        best = e.best_expert
        lines.append(f"best single expert for the true value: {best.name}, which alone says {said(best.alone)}")
    lines += [f"note: {note}" for note in e.notes] + [f"model: {e.model}"]
    return '<div class="red-notes" style="line-height:1.4">' + "<br>".join(map(html.escape, lines)) + "</div>"


def how_wrong(e: Explanation, tippings: Sequence[Tipping]) -> str:
    """How much of the weight has to go to a wrong expert before the answer is another one."""
    first = easiest(tuple(tippings))
    if first is None:
        head = f"No single expert, given all of the weight, changes the answer {e.answer.value}."
    else:
        head = (
            f"The answer {e.answer.value} becomes {first.value} once <b>{first.share:.1%}</b> of the weight is sent to "
            f"{first.expert}: so wrong may the route be."
        )
    each = "; ".join(
        f"{t.expert}: never" if t.share is None else f"{t.expert}: {t.share:.1%}, then {t.value}" for t in tippings
    )
    return f'<div class="red-tipping" style="line-height:1.5">{head}<br>By expert: {each}.</div>'


def explanation(e: Explanation, beside: Beside | None = None, before: Explanation | None = None) -> Mapping[str, str]:
    """All pieces of one explanation but `how_wrong`, by name."""
    return {
        "verdict": verdict(e, before),
        "weights": weights(e, beside),
        "waterfall": waterfall(e),
        "distribution": distribution(e, before),
        "methods": methods(e),
        "notes": notes(e),
    }
