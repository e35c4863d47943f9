"""Program trace: a chain in words, the program that a planner writes for it, and every step as experts do it."""

import html
from collections.abc import Iterator, Mapping
from functools import lru_cache

import ipywidgets

from redlib.execution import Solution, Solver
from redlib.execution.solution import Done
from redlib.widgets.panel import REMEMBERED, Panel, Shown, control, methods_control, row
from redlib.widgets.svg import BLUE, GREY, HATCH, box, picture, text

QUESTION = "29 minus 11 minus 9 plus 15"
WIDTH, LINE, STEP, TOP = 720, 22, 40, 22
SHADES = (BLUE, "url(#down)", "#009E73", "#CC79A7", "#56B4E9", GREY)  # of the experts' weights


def verdict(s: Solution) -> str:
    """The answer, whether it is right, and the flag of a step that the experts do not know."""
    truth = f"{s.true_value} is exact" if s.true_value is not None else "no true value known"
    mark = {True: "✓ right", False: "✗ wrong", None: ""}[s.right]
    flag = ' <b style="color:#D55E00">⚠ out of domain</b>' if s.out_of_domain else ""
    about = f'data-answer="{s.answer}" data-outside="{int(s.out_of_domain)}"'
    return (
        f'<div class="red-solved" {about}><b>{html.escape(s.method)}</b> answers <b style="font-size:150%">{s.answer}'
        f"</b> <b>{mark}</b> ({truth}){flag}</div>"
    )


def draw_plan(s: Solution) -> str:
    """Every line of the program with a bar for the planner's probability of it."""
    heading = f"program by the {s.planner} planner, with the probability of each line"
    parts, words = [text(0, 12, heading, more='font-weight="bold"')], []
    for k, (line, probability) in enumerate(s.lines):
        y = TOP + LINE * k
        parts.append(text(0, y + 13, line, more='class="red-line" font-family="monospace"'))
        parts.append(box(210, y + 3, 300 * min(max(probability, 0.0), 1.0), 12, BLUE))
        parts.append(text(520, y + 13, f"{probability:.3f}", more='class="red-probability"'))
        words.append(f"{line} {probability:.3f}")
    label = f"{heading}: {'; '.join(words)}; whole program {s.plan.probability:.3f}"
    return picture(WIDTH, TOP + LINE * len(s.lines) + 4, label, parts)


def draw_trace(s: Solution) -> str:
    """A step a row: its numbers, the weights of the experts as one bar, what was said of it, and what is exact."""
    heading = f"steps by {s.method}: weights of the experts, answer and its probability, exact value"
    parts, words = [HATCH, text(0, 12, heading, more='font-weight="bold"')], []
    for k, step in enumerate(s.trace):
        y = TOP + STEP * k
        parts += [text(0, y + 20, f"{step.variable} = {step.text}", more='font-family="monospace"'), *_weights(step, y)]
        said = f"{step.said.value} ({step.said.probability:.3f})"
        parts.append(text(430, y + 20, said, more=f'class="red-step" data-value="{step.said.value}"'))
        remarks = _remarks(step)
        parts.append(text(520, y + 20, remarks))
        weights = ", ".join(f"{name} {weight:.3f}" for name, weight in step.said.weights.items())
        words.append(f"{step.variable} = {step.text}, weights {weights or 'none'}, answered {said}, {remarks}")
    return picture(WIDTH, TOP + STEP * len(s.trace) + 4, f"{heading}: {'; '.join(words)}", parts)


def _weights(step: Done, y: float) -> Iterator[str]:
    """The weights in words above one bar of width 1, a part an expert."""
    if not step.said.weights:
        yield text(130, y + 20, "no router")
        return
    yield text(130, y + 9, ", ".join(f"{name} {weight:.3f}" for name, weight in step.said.weights.items()))
    left = 130.0
    for k, weight in enumerate(step.said.weights.values()):
        wide = 270 * min(max(weight, 0.0), 1.0)
        yield box(left, y + 14, wide, 12, SHADES[k % len(SHADES)], 'stroke="currentColor" stroke-width="0.5"')
        left += wide


def _remarks(step: Done) -> str:
    found = [f"exact {step.exact} {'✓' if step.right else '✗'}"]
    found += [] if step.inside else ["⚠ outside the domain"]
    found += [] if step.needed else ["not needed"]
    return ", ".join(found)


def notes(s: Solution) -> str:
    """The probability of the whole program, the notes of the solution, and whose experts these are."""
    stated = {True: "adds and subtracts what the text does", False: "is not what the text states"}.get(s.same_program)
    lines = [f"the program has probability {s.plan.probability:.3f}" + (f" and {stated}" if stated else "")]
    lines += [f"note: {note}" for note in s.notes] + [f"model: {s.model}"]
    return '<div class="red-notes" style="line-height:1.4">' + "<br>".join(map(html.escape, lines)) + "</div>"


def solution(s: Solution) -> Mapping[str, str]:
    """All pieces of one solution, by name."""
    return {"verdict": verdict(s), "plan": draw_plan(s), "trace": draw_trace(s), "notes": notes(s)}


class ProgramTrace(Panel):
    """A view of `solver.solve(text, planner, method)`; `longest`: steps of the longest program, for which there is
    room. The last answers are remembered."""

    def __init__(self, solver: Solver, text: str = QUESTION, longest: int = 4):
        heights = {"verdict": 36, "plan": TOP + LINE * (longest + 1) + 10, "trace": TOP + STEP * longest + 10}
        super().__init__(heights | {"notes": 96})
        self.solver = solver
        self._solve = lru_cache(maxsize=REMEMBERED)(solver.solve)
        self.text = control(ipywidgets.Text, "chain", 460, value=text, continuous_update=False)
        self.planner = control(ipywidgets.Dropdown, "planner", 200, options=list(solver.planners))
        self.method = methods_control(list(solver.executors))
        self.children = (row(self.text, self.planner, self.method), self.status, *self.pieces.values(), self.copy)
        self.watch(self.text, self.planner, self.method)
        self.refresh()

    def asked(self) -> tuple[str, str, str]:
        return self.text.value, self.planner.value, self.method.value

    def answer(self, asked: tuple[str, str, str]) -> Shown:
        s = self._solve(*asked)
        return Shown(solution(s), s)
