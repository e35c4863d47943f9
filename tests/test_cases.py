"""Case studies: the rules that choose questions, and the tables against single explanations."""

import numpy as np
import pandas as pd
import pytest

from redlib import claims, config, figures, results, statistics
from redlib.expressions import LabelSpace
from redlib.study import case_tables, cases, table, task1
from redlib.study.explaining import explainer

LABELS = LabelSpace()
SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"text": 2, "structure": 2},
    "task1.source_seeds": {"structure": 1},
    "task2.definitions": {"operations": {"rows": 500, "seeds": {"structure": 1}}},
}


@pytest.fixture
def profile(cache):
    return config.load("smoke", SMALL)


def rows(n=400, seed=0):
    """Made-up test rows with everything that the rules look at."""
    rng = np.random.default_rng(seed)
    value = rng.integers(LABELS.lo, LABELS.hi + 1, n)
    frame = pd.DataFrame({"row": rng.permutation(n), "value": value, "structure": rng.integers(0, 150, n).astype(str)})
    frame["range"] = [LABELS.range_of(v) for v in value]
    frame["first"] = np.where(rng.random(n) < 0.7, frame["range"], rng.integers(0, LABELS.K, n))
    frame["right"] = rng.random(n) < 0.6
    for name in ("own", "entropy", "regret"):
        frame[name] = rng.random(n)
    return frame.assign(distance=rng.integers(0, 9, n))


def test_ten_questions_are_chosen_two_a_rule_none_twice():
    chosen = cases.choose(rows(), LABELS)
    assert chosen["case"].tolist() == [f"{rule} {turn}" for rule in cases.RULES for turn in (1, 2)]
    assert chosen["row"].is_unique
    for _, pair in chosen.groupby(chosen["case"].str.rstrip(" 12")):
        assert pair["structure"].is_unique


def test_each_rule_finds_what_it_says():
    frame = rows()
    chosen = cases.choose(frame, LABELS).set_index("case")
    assert chosen.loc["most uncertain 1", "entropy"] == frame["entropy"].max()
    assert chosen.loc["worst regret 1", "regret"] == frame["regret"].drop(frame.index[frame["entropy"] > 1]).max()
    rescued = frame[frame["right"] & (frame["first"] != frame["range"])]
    assert chosen.loc["rescued misroute 1", "own"] == rescued["own"].min()
    assert chosen.loc["far from training 1", "distance"] == frame["distance"].max()
    low, high = chosen.loc[["boundary pair 1", "boundary pair 2"], "value"]
    assert (low, high) in {(last, last + 1) for _, last in LABELS.bounds[:-1]}
    for value in (low, high):
        assert chosen[chosen["value"] == value]["own"].min() <= frame[frame["value"] == value]["own"].median()


def test_the_choice_does_not_depend_on_the_order_of_the_rows():
    frame = rows()
    again = cases.choose(frame.sample(frac=1, random_state=3), LABELS)
    assert again["row"].tolist() == cases.choose(frame, LABELS)["row"].tolist()


def test_a_rule_that_nothing_satisfies_gives_nothing():
    chosen = cases.choose(rows().assign(right=False), LABELS)
    assert not chosen["case"].str.startswith("rescued").any()
    assert len(chosen) == 8


def test_the_tables_say_of_a_question_what_explain_says(profile):
    frame = table(profile, "cases", say=lambda line: None)
    assert set(frame["group"]) == set(case_tables.questions()) and len(case_tables.questions()) == 4  # noqa: PT018
    for task, split, seed in (("task1", "structure", 1), ("task1", "text", 0), ("task2", "structure", 0)):
        mine = results.select(frame, task=task, split=split, seed=seed, method="red")
        mine = mine[mine["variant"].str.endswith("chosen")]
        for e in explainer(profile, task, split, seed=seed).explain_all(case_tables.questions()):
            said = mine[mine["group"] == e.text].set_index("metric")["value"]
            for k, weight in enumerate(e.alpha, 1):
                assert said[f"alpha_{k}"] == pytest.approx(weight, abs=1e-5)
            steps = sum(said[name] for name in ("shared", *(f"part_{k}" for k in range(1, LABELS.K + 1))))
            assert steps == pytest.approx(e.logits[LABELS.index(e.true_value)], abs=1e-3)
            assert said["answer"] == e.answer.value
            assert said["true_value"] == e.true_value
            assert said["regret"] == pytest.approx(e.regret, abs=1e-4)


def test_rows_over_seeds_are_means_with_intervals_and_choices_have_none(profile):
    frame = table(profile, "cases")
    mine = results.select(frame, task="task1", variant="chosen", split="text", method="red", group="What is 40 plus 1?")
    each = mine[(mine["seed"] != "all") & (mine["metric"] == "alpha_3")]["value"]
    whole = results.pick(mine, seed="all", metric="alpha_3")
    assert len(each) == 2
    assert whole["value"] == pytest.approx(each.mean(), rel=1e-4)
    assert each.min() - 1e-6 <= whole["low"] <= whole["value"] <= whole["high"] <= each.max() + 1e-6
    assert not set(case_tables.CHOICES) & set(mine[mine["seed"] == "all"]["metric"])
    once = results.select(frame, variant="source", seed="all")
    assert (once["low"].isna() == ~once["metric"].isin(case_tables.YES_OR_NO)).all()
    right = results.pick(mine, seed="all", metric="value_accuracy")
    assert (right["low"], right["high"]) == pytest.approx(statistics.wilson(round(2 * right["value"]), 2), abs=1e-5)


def test_the_chosen_questions_are_test_rows_that_training_has_not_seen(profile):
    frame = table(profile, "case_picks")
    s = task1.setting(profile, "chosen", "structure")
    data = case_tables.Data(s)
    held = set(data.pool["text"].iloc[data.rows["test"][0]])
    assert set(frame["group"]) <= held
    assert (results.select(frame, metric="seen")["value"] == 0).all()
    assert {case.rstrip(" 12") for case in frame["case"]} <= set(cases.RULES)


def test_candidates_carry_the_numbers_of_their_explanations(profile):
    s = task1.setting(profile, "chosen", "structure")
    opened = explainer(profile)
    frame = case_tables.candidates(s, opened.model(), 0).head(5)
    for row, e in zip(frame.itertuples(), opened.explain_all(frame["text"].tolist()), strict=True):
        assert row.entropy * np.log2(np.e) == pytest.approx(e.entropy, abs=1e-3)
        assert row.regret == pytest.approx(e.regret, abs=1e-3)
        assert row.first == int(np.argmax(e.alpha))
        assert row.distance == e.nearest[0].distance


def test_weights_by_range_sum_to_one_and_the_spread_rises(profile):
    routes = results.select(table(profile, "case_routes"), seed="all")
    sums = (
        routes[routes["metric"].str.startswith("alpha_")].groupby(["task", "variant", "split", "group"])["value"].sum()
    )
    assert np.allclose(sums, 1, atol=1e-4)
    spread = results.select(table(profile, "case_spread"), seed="all").sort_values("x")
    for _, line in spread.groupby(["task", "variant", "split", "group"]):
        assert line["value"].is_monotonic_increasing


def test_the_figures_redraw_from_the_tables_and_from_an_explanation(profile, tmp_path):
    reported, frame = claims.load(), table(profile, "cases")
    drawn = {"profile": "smoke", "note": figures.NO_EVIDENCE}
    made = {
        "weights": figures.draw_case_weights(frame, reported, **drawn),
        "parts": figures.draw_case_parts(frame, reported, **drawn),
        "spread": figures.draw_case_spread(table(profile, "case_spread"), reported, **drawn),
        "picks": figures.draw_case_picks(table(profile, "case_picks"), **drawn, rules=list(cases.RULES)),
        "one": figures.draw_explanation(explainer(profile).explain("no numbers {here}"), figures.NO_EVIDENCE),
    }
    for name, fig in made.items():
        assert all(path.stat().st_size > 1_000 for path in figures.save(fig, tmp_path, name))
    assert [ax.get_title() for ax in made["weights"].axes] == case_tables.questions()
    heights = [bar.get_height() for bar in made["weights"].axes[0].containers[0]]
    assert heights == [0.02, 0.04, 0.14, 0.28, 0.52]
    with pytest.raises(LookupError, match="variant=other"):
        figures.draw_case_weights(frame, reported, **drawn, variant="other")
