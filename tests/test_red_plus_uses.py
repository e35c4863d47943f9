"""Where `red_plus` is used beyond its own tables: single steps and programs, maps, routing, explanations, widgets."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import backbone, config, evaluation, explain, features, models, results
from redlib.explain import Explainer, Intervention, Model, Structures
from redlib.explain.explainer import CHUNK
from redlib.expressions import OPERATORS, LabelSpace
from redlib.features import Point
from redlib.models import FourierBank, LightBase, LinearBank, MLPBank, NetworkBase, PooledBase, ResidualExperts
from redlib.models.executors import PLUS_EXECUTORS, executor
from redlib.study import execution, operations, red_plus, table
from redlib.study.data import feature_set
from redlib.study.population import answers, population_stage
from redlib.study.red_plus import maps as red_plus_maps
from redlib.study.red_plus import parts as red_plus_parts
from redlib.study.red_plus import steps as red_plus_steps
from redlib.widgets import RoutingInspector, pieces

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"structure": 1},
    "task2.definitions": {"operations": {"rows": 250, "seeds": {"structure": 1}}},
    "red_plus.task1.seeds": {"structure": 1},
    "decomposer.seeds": {},
    "operations.rows": 300,
    "operations.chains": 100,
    "operations.domains": ["closed"],
    "operations.seeds": {"structure": 1},
    "population.wordings": 1,
    "bootstrap": 10,
}
LABELS, WIDTH = LabelSpace(), 8
quick = settings(deadline=None, max_examples=25)


@pytest.fixture(scope="module")
def profile(cache):
    return config.load("smoke", SMALL)


def quiet(line):
    pass


# ---- single steps ------------------------------------------------------------------------------------------------


def test_experts_of_operations_see_their_own_operation_and_the_asked_share_of_the_other(profile):
    s = red_plus_steps.setting(profile, "closed", "structure")
    assert (s.K, s.labels) == (len(OPERATORS), operations.labels(profile))
    data = red_plus_parts.HiddenData(s, red_plus.base_stage(s, 0).run(quiet))
    train = data.rows["train"][0]
    for k, operator in enumerate(OPERATORS):
        rows = red_plus_parts.rows_of_expert(data, train, k, 0)
        own = data.pool["expression"].iloc[rows].str.contains(operator, regex=False)
        assert (~own).mean() == pytest.approx(s.recipe.foreign_share, abs=0.02)
        assert own.sum() == data.pool["expression"].iloc[train].str.contains(operator, regex=False).sum()


def test_experts_of_ranges_and_of_operations_do_not_share_a_key(profile):
    s = red_plus_steps.setting(profile, "closed", "structure")
    wide = red_plus.setting(profile, "task1", "structure")
    assert red_plus.experts_stage(s, 0).config["experts_by"] == "operation"
    assert "experts_by" not in red_plus.experts_stage(wide, 0).config


@pytest.mark.parametrize("name", PLUS_EXECUTORS)
def test_zero_experts_of_operations_are_the_base_bit_for_bit(name):
    parts, x = plus_parts(NetworkBase([3], 12, WIDTH), K=2, trained=False), torch.randn(5, 12)
    alone = executor("red_plus_base", LABELS, parts, 2)(x).logits
    assert torch.equal(executor(name, LABELS, parts, 2)(x).logits, alone)


def test_light_layers_are_refused_for_single_steps():
    with pytest.raises(ValueError, match="red_plus of steps reads pooled features; layers must be 0, got 1"):
        red_plus_steps.setting(config.load("smoke", {"red_plus.steps.layers": 1}), "closed", "structure")


def test_both_kinds_of_executors_do_the_same_programs_and_their_differences_add_up(profile):
    found = table(profile, "red_plus_execution", say=quiet)
    results.validate(found)
    here = results.select(found, variant="closed/gold", seed="all", group="all", split="structure")
    value = results.select(here, metric="value_accuracy").set_index("method")
    assert set(value.index) == {*PLUS_EXECUTORS, *red_plus_steps.BESIDE}
    assert value["n"].nunique() == 1
    assert value.loc["symbolic", "value"] == 1
    below = results.select(here, metric="value_accuracy_below_red_plus").set_index("method")["value"]
    apart = value.loc["red_plus", "value"] - value["value"]
    np.testing.assert_allclose(below, apart[below.index], atol=1e-5)
    assert set(found["group"]) >= {"unseen=some", "ops=2"}


def test_single_steps_are_those_of_the_saved_parts(profile):
    s = red_plus_steps.setting(profile, "closed", "structure")
    said = pd.read_parquet(red_plus_steps.executors_stage(profile, "closed", "structure").run(quiet) / "steps.parquet")
    steps = said[said["method"] == "red_plus"].iloc[::97]
    texts = [f"{r.first} {r.operator} {r.second}" for r in steps.itertuples()]
    point = Point(s.recipe.layer, s.recipe.pooling)
    x = features.compute(backbone.load("tiny"), texts, [point])[point]
    method = executor("red_plus", s.labels, red_plus.load_parts(s, 0), s.K)
    now = evaluation.predict(method, torch.from_numpy(x), s.labels)
    np.testing.assert_allclose(now["confidence"], steps["confidence"], rtol=1e-3)
    np.testing.assert_array_equal(now["router_range"], steps["route"])
    exact = table(profile, "red_plus_steps", say=quiet)
    assert set(exact["method"]) == set(PLUS_EXECUTORS)
    assert results.select(exact, metric="router_accuracy", group="all")["value"].between(0, 1).all()


def test_an_arm_has_the_executors_of_every_stage_and_the_seeds_that_all_have(profile):
    arm = execution.Arm("closed", "closed", "structure")
    stage = red_plus_steps.main_tables(profile)
    table(profile, "red_plus_execution", say=quiet)
    (looks,) = execution.looks(profile, arm, stage)
    assert {*PLUS_EXECUTORS, *execution.METHODS} == set(looks)


# ---- maps and routing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", red_plus.TASKS)
def test_a_population_is_answered_as_the_trained_method_answers_its_texts(profile, task):
    (own,) = (pair[0] for pair in red_plus_maps.settings(profile) if pair[0].task == task)
    population = population_stage(task, getattr(profile, task), own.labels, 1)
    read = red_plus.read_stage(profile, own.recipe, population)
    read.run(quiet)
    (said,) = answers(own, read, 1, ("red_plus",))["red_plus"]
    found, rows = feature_set(read), np.arange(0, len(said), 50)
    pooled = None if own.recipe.layers else torch.from_numpy(np.array(found.pooled(Point(2))[rows]))
    x = found.states().batch(rows) if pooled is None else pooled
    now = evaluation.predict(red_plus.trained(profile, task), x, own.labels, probabilities=True)
    columns = [name for name in now if name.startswith(("probability", "alpha"))]
    np.testing.assert_allclose(now[columns], said.loc[rows, columns], atol=1e-4)


def test_maps_and_curves_hold_red_plus_beside_the_others_on_the_same_pairs(profile):
    curves, shapes, maps = (table(profile, f"red_plus_{name}", say=quiet) for name in ("sweep", "smoothness", "maps"))
    assert set(curves["method"]) == set(red_plus_maps.CURVES)
    assert set(shapes["method"]) == {*red_plus_maps.PLUS, *red_plus_maps.BESIDE}
    assert set(maps["metric"]) == set(red_plus_maps.MAPS)
    once = results.select(maps, metric="value_error").groupby(["task", "method"])[["first", "second"]].value_counts()
    assert (once == 1).all()
    sizes = results.select(maps, metric="value_error").groupby(["task", "method"]).size().unstack()
    assert (sizes.nunique(axis=1) == 1).all()
    below = results.select(shapes, metric="backtrack_below_red_plus", group="all", task="task1")
    plain = results.select(shapes, metric="backtrack", group="all", task="task1").set_index("method")["value"]
    for row in below.itertuples():
        assert row.value == pytest.approx(plain["red_plus"] - plain[row.method], abs=2e-3)


def test_uncorrupted_routes_give_the_accuracy_of_the_predictions(profile):
    attacked = table(profile, "red_plus_robustness", say=quiet)
    said = table(profile, "red_plus", say=quiet)
    for task in red_plus.TASKS:
        start = results.select(attacked, task=task, method="red_plus", corruption="wrong", metric="value_accuracy")
        start = start[start["strength"] == 0]["value"].item()
        assert start == pytest.approx(
            results.pick(said, task=task, method="red_plus", seed="all", group="all", metric="value_accuracy")["value"],
            abs=1e-5,
        )
    assert set(attacked["method"]) == {"red_plus", "red_plus_top1", "red_plus_uniform", "red", "softmax_moe"}
    assert {"value_accuracy_drop_below_red_plus"} <= set(results.select(attacked, method="red")["metric"])
    flat = results.select(attacked, method="red_plus_uniform", metric="value_accuracy")
    assert flat.groupby("task")["value"].nunique().eq(1).all()


# ---- explanations ------------------------------------------------------------------------------------------------


@quick
@given(periods=st.lists(st.integers(3, 200), min_size=1, max_size=4), seed=st.integers(0, 999))
def test_the_maps_of_all_periods_add_up_to_the_bank(periods, seed):
    labels = LabelSpace(0, 40, (20,))
    bank = FourierBank([seed, seed + 1], 6, 0, labels, (101, *periods))
    bank.readout.gain.data.normal_(1, 0.5, generator=torch.Generator().manual_seed(seed))
    h = torch.randn(3, 6, generator=torch.Generator().manual_seed(seed))
    weight, bias = bank.by_period()
    assert weight.shape == (2, 1 + len(periods), 6, labels.C)
    each = torch.einsum("bd,spdc->spbc", h, weight) + bias[:, :, None]
    torch.testing.assert_close(each.sum(1), bank(h), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(h @ bank.weight + bias.sum(1)[:, None], bank(h), atol=1e-4, rtol=1e-4)


def test_a_bank_with_a_hidden_layer_is_no_sum_by_period():
    with pytest.raises(ValueError, match="with a hidden layer is no sum of linear maps by period"):
        FourierBank([0], 6, 4, LABELS).by_period()


def plus_parts(base, K=LABELS.K, trained=True):
    experts = ResidualExperts(range(K), WIDTH, 4)
    if trained:
        experts.up.weight.data.normal_(0, 0.5, generator=torch.Generator().manual_seed(0))
    classifier, router = FourierBank([5], WIDTH, 0, LABELS), MLPBank([9], WIDTH, 4, K)
    return {"base": base, "classifier": classifier, "experts": experts, "router": router}


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
