"""Explanations by `red_plus`: opened when asked for, sums over periods and experts, card and widgets."""

import numpy as np
import pytest
import torch
from small_plus import LABELS, WIDTH, plus_parts

from redlib import backbone, explain, features, models
from redlib.explain import Explainer, Intervention, Model, Structures
from redlib.explain.explainer import CHUNK
from redlib.features import Point
from redlib.models import LightBase, LinearBank, MLPBank, NetworkBase, PooledBase, ResidualExperts
from redlib.widgets import RoutingInspector, pieces


def red_parts(d):
    base = PooledBase(torch.zeros(1, 1, d), torch.ones(1, 1, d))
    classifier, router = LinearBank([1], d, LABELS.C), MLPBank([3], d, 4, LABELS.K)
    return {"base": base, "classifier": classifier, "experts": ResidualExperts(range(5), d, 3), "router": router}


@pytest.fixture(params=["pooled", "tokens"])
def explainer(request):
    """Untrained models on the tiny backbone; `opened` says what was opened."""
    bone, opened = backbone.load("tiny"), []
    d, tokens = bone.hidden_size, request.param == "tokens"
    base = LightBase([3], d, WIDTH, 1, 2, 64) if tokens else NetworkBase([3], d, WIDTH)
    place = {"backbone": bone, "task": "task1", "labels": LABELS, "operands": (2, 50), "tuned_layers": 0}

    def model(name, parts, kinds):
        opened.append(name)
        return Model(name, LABELS, parts, Structures.of(["+12+27"]), kinds)

    def plus():
        made = {"structure": lambda: model("circles", plus_parts(base), tuple(models.PLUS))}
        return Explainer(point=Point(1), models=made, tokens=tokens, **place)

    own = {"structure": lambda: model("own", red_parts(d), tuple(models.METHODS))}
    made = Explainer(point=Point(2), models=own, plus=plus, **place)
    object.__setattr__(made, "opened", opened)
    return made


TEXT = "What is 47 plus 38?"
ROUTED = ("red_plus", "red_plus_top1", "red_plus_uniform", "red_plus_value_router")


def as_read(own, texts):
    """What the base of an explainer reads of texts, straight from the features: pooled, or token states and mask.

    In batches like the explainer's: light layers round otherwise in another batch, by as much as is allowed here.
    """
    for first in range(0, len(texts), CHUNK):
        rows = texts[first : first + CHUNK]
        if own.tokens:
            yield features.token_states(own.backbone, rows, own.point.layer).batch(range(len(rows)))
        else:
            yield torch.from_numpy(features.compute(own.backbone, rows, [own.point])[own.point])


def weigh(alpha, parts):
    """Weights (N, K) and what experts add (N, K, ...) -> what all add together (N, ...)."""
    return torch.einsum("nk,nk...->n...", alpha, parts)


def test_red_plus_is_opened_and_read_once_and_only_when_asked_for(explainer):
    reading = explainer.read([TEXT])[0]
    plain = explainer.explain(reading)
    assert explainer.opened == ["own"]
    assert (plain.periods, plain.by_period, plain.components()) == ((), None, {})
    assert "components" not in plain.to_dict()
    e = explainer.explain(reading, "red_plus")
    assert explainer.opened == ["own", "circles"]
    assert e.model == "circles"
    assert [a.method for a in e.methods] == [*(a.method for a in plain.methods), *models.PLUS]
    (own,) = reading.plus
    explainer.explain(reading, "red_plus_base")
    assert reading.plus == [own]
    both = explainer.explain_all([TEXT, "What is 2 plus 3?"], "red_plus")
    np.testing.assert_allclose(both[0].logits, e.logits, atol=1e-4)


@pytest.mark.parametrize("method", ROUTED)
def test_periods_and_experts_add_up_to_the_logits_under_any_change(explainer, method):
    change = Intervention(drop="R1", scale={"R2": 2.0}, noise={"R3": 0.5})
    for intervention in (explain.NOTHING, change):
        e = explainer.explain(TEXT, method, intervention)
        assert e.by_period.shape == (1 + LABELS.K, len(e.periods), LABELS.C)
        for value in (LABELS.lo, 50, e.answer.value):
            cells, logit = e.components(value), e.logits[LABELS.index(value)]
            assert sum(sum(row.values()) for row in cells.values()) == pytest.approx(logit, abs=1e-3)
            assert sum(e.period_waterfall(value).values()) == pytest.approx(logit, abs=1e-3)
            rows = {name: sum(row.values()) for name, row in cells.items()}
            assert rows == pytest.approx(e.waterfall(value), abs=1e-3)


def test_contributions_and_periods_add_up_over_a_thousand_questions(explainer):
    own, pairs = explainer.plus(), np.random.default_rng(3).integers(2, 51, size=(1000, 2))
    texts = [f"What is {a} plus {b}?" for a, b in pairs]
    views = [reading.views["structure"] for reading in own.read(texts)]
    x = list(as_read(own, texts))
    assert set(own.model().routed) == set(ROUTED)
    for method in ROUTED:
        sums, alpha = (
            [view.sums[method] for view in views],
            torch.tensor([view.answers[method].alpha for view in views]),
        )
        total = torch.stack([s.base for s in sums]) + weigh(alpha, torch.stack([s.contributions for s in sums]))
        parts = sums[0].by_period.parts(torch.cat([s.vectors for s in sums]))[1:]  # one readout for all texts
        periods = torch.stack([s.by_period.base for s in sums]) + weigh(alpha, parts.unflatten(0, alpha.shape))
        whole = models.assemble(method, LABELS, dict(own.model().parts))
        with torch.no_grad():
            want = torch.cat([whole(rows).logits for rows in x])
        for added in (total, periods.sum(1)):
            for said in (torch.stack([view.logits[method] for view in views]), want):
                off = (added - said).abs().amax(1) / said.abs().amax(1)
                assert off.max() <= explain.TOLERANCE, method


def test_methods_without_experts_have_no_components_and_unknown_ones_name_all(explainer):
    assert explainer.explain(TEXT, "red_plus_base").components() == {}
    assert explainer.methods == [*explainer.model().methods, *models.PLUS]
    assert "red_plus_base" not in explainer.routed
    with pytest.raises(ValueError, match=r"unknown method 'rad'; methods of own: .*top1.*red_plus, red_plus_base"):
        explainer.explain(TEXT, "rad")
    with pytest.raises(ValueError, match="red_plus_base is no sum over experts"):
        explainer.explain(TEXT, "red_plus_base", Intervention(drop="R1"))


def test_card_and_widgets_show_what_every_period_adds(explainer):
    e = explainer.explain(TEXT, "red_plus")
    card = e.card()
    assert f"adds to the logit of {e.answer.value}   shared   experts" in card
    first = next(iter(e.period_waterfall().items()))
    assert f"  {first[0]:<8g}{first[1]:+19.3f}" in card
    assert set(e.to_dict()["components"]) == {"shared", *LABELS.names}
    assert "by period" in pieces.waterfall(e)
    assert "by period" not in pieces.waterfall(explainer.explain(TEXT))
    inspector = RoutingInspector(explainer, text=TEXT)
    assert explainer.opened[-1] == "own" or "circles" in explainer.opened
    inspector.method.value = "red_plus"
    assert inspector.explanation.method == "red_plus"
    assert "by period" in inspector.pieces["waterfall"].value
