"""Routing inspector: one question, how it is routed, and what its answer is made of."""

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets

from redlib import explain
from redlib.explain import Explainer, Intervention
from redlib.expressions import Expression
from redlib.widgets import pieces
from redlib.widgets.panel import Panel, Shown, control, methods_control, reader, row

HEIGHTS = {"verdict": 36, "weights": 172, "waterfall": 172, "distribution": 174, "methods": 84, "notes": 132}
QUESTION = "What is 47 plus 38?"


class RoutingInspector(Panel):
    """A view of `explainer.explain(text, method)`, with the model of any split.

    A question is typed, or made of operands and an operator in the canonical wording. `reported` has weights (K) by
    question, of which `whose` says the origin: they stand beside the measured ones of that question.
    """

    def __init__(
        self,
        explainer: Explainer,
        reported: Mapping[str, Sequence[float]] | None = None,
        text: str = QUESTION,
        whose: str = "reported by the source",
    ):
        super().__init__(HEIGHTS)
        self.explainer, self.reported, self.whose = explainer, dict(reported or {}), whose
        self._read = reader(explainer)
        self.text = control(ipywidgets.Text, "question", 460, value=text, continuous_update=False)
        known = [("the source's questions …", ""), *zip(self.reported, self.reported, strict=True)]
        self.reported_ones = control(ipywidgets.Dropdown, "or one of", 300, options=known, value="")
        number = {"min": 0, "max": explainer.labels.hi, "value": explainer.operands[0]}
        self.first = control(ipywidgets.BoundedIntText, "or operands", 150, **number)
        self.operator = control(
            ipywidgets.Dropdown, "operator", 130, 62, options=list(explain.operators(explainer.task))
        )
        self.second = control(ipywidgets.BoundedIntText, "second", 120, 55, **number)
        self.method = methods_control(explainer.methods)
        splits = list(explainer.models)
        self.split = control(
            ipywidgets.Dropdown, "trained on", 230, options=splits, value=explainer.split, tooltip="split of the model"
        )
        self.children = (
            row(self.text, self.reported_ones),
            row(self.first, self.operator, self.second, self.method, self.split),
            self.status,
            self.pieces["verdict"],
            row(self.pieces["weights"], self.pieces["waterfall"]),
            *(self.pieces[name] for name in ("distribution", "methods", "notes")),
            self.copy,
        )
        self.watch(self.text, self.method, self.split)
        self.reported_ones.observe(self._choose, "value")
        for operand in (self.first, self.operator, self.second):
            operand.observe(self._compose, "value")
        self.refresh()

    def _choose(self, change: Any) -> None:
        if change["new"]:
            self.text.value = change["new"]

    def _compose(self, change: Any) -> None:
        with self.lock:
            if self._quiet:
                return
            asked = explain.question(self.explainer.task, self.first.value, self.operator.value, self.second.value)
        self.text.value = asked

    def asked(self) -> tuple[str, str, Intervention]:
        own = self.split.value == self.explainer.split
        return self.text.value, self.method.value, Intervention(split=None if own else self.split.value)

    def answer(self, asked: tuple[str, str, Intervention]) -> Shown:
        text, method, change = asked
        e = self.explainer.explain(self._read(text), method, change)
        reported = self.reported.get(text.strip())
        return Shown(pieces.explanation(e, reported and (self.whose, reported)), e)

    def show(self, shown: Shown) -> None:
        super().show(shown)
        expression = shown.explanation and shown.explanation.expression
        if expression is not None:
            self._follow(expression)
        self.reported_ones.value = self.text.value if self.text.value in self.reported else ""

    def _follow(self, expression: Expression) -> None:
        """The controls show the operands of a question that they could have made."""
        pair = len(expression.terms) == 2 and expression.operators[0] in self.operator.options
        if pair and max(expression.terms) <= self.first.max:
            self.first.value, self.second.value = expression.terms
            self.operator.value = expression.operators[0]
