"""What a notebook answers of made-up tables: the opposite numbers give the opposite sentence."""

import pandas as pd
import pytest

from redlib import config, figures, study
from redlib.study.answers import ANSWERS, answer, programs
from redlib.study.answers.reading import Tables, hold


def line(value=0.5, half=0.01, **keys):
    """One row of a made-up table: a value with an interval of `half` to either side."""
    common = {"seed": "all", "part": "test", "group": "all", "split": "structure", "variant": "chosen"}
    return common | {"value": value, "low": value - half, "high": value + half, "n": 100} | keys


def tell(name, verdicts=None, **frames):
    """What a notebook answers from made-up tables."""
    made = {table: pd.DataFrame(rows) for table, rows in frames.items()}
    return ANSWERS[name](Tables(config.load("record"), made.__getitem__, lambda: verdicts))


def averaging(sign):
    name = "value_accuracy_below_red"
    yield line(0.3 * sign, method="red_uniform", metric=name)
    yield line(0.4, method="uniform_average", metric="range_accuracy")
    yield line(0.9, method="oracle_experts", metric="range_accuracy")


def mixture(sign):
    yield line(0.5 + 0.2 * sign, method="red", metric="router_accuracy")
    yield line(0.5, method="softmax_moe", metric="router_accuracy")
    yield line(0.1, method="softmax_moe", metric="value_accuracy")


def probes(sign):
    at = {"variant": "additions", "layer": config.load("record").chosen.layer, "site": "pooled", "metric": "accuracy"}
    for target, method in (("first_operand", "linear"), ("value", "linear"), ("value", "mlp")):
        yield line(0.5, target=target, method=method) | at


def links(sign):
    for target in ("tens_digit", "units_digit", "range"):
        yield line(0.2 * sign, target=target, metric="value_link")


def changes(sign):
    for task in ("task1", "task2"):
        own = {"task": task, "x": 0, "changed": "nothing", "reference": "", "metric": "value_accuracy"}
        yield line(0.4) | own
        own |= {"x": 1, "changed": "pooling=last", "reference": "chosen", "metric": "value_accuracy_change"}
        yield line(0.2 * sign) | own | {"variant": "chosen/pooling=last"}


def one_expert(sign):
    yield line(0.1 * sign, variant="chosen/same=rank", method="K=1", metric="value_accuracy_change")


def exchanged(sign):
    yield line(-0.3, method="remove_R1", group="R1", metric="value_accuracy_change")
    for name in ("seed", "chains"):
        yield line(0.1 * sign, method=f"replace_{name}", metric="value_accuracy_change")
    yield line(0.0, method="add_minus_refit", metric="value_accuracy_change")
    yield line(0.5, variant="chosen/questions=minus", method="add_minus_refit", metric="value_accuracy")


def smoothness(sign):
    at = {"part": "population", "task": "task1", "operator": "addition", "group": "unseen"}
    yield line(0.5, **at, method="red", metric="backtrack")
    yield line(0.5 + 0.2 * sign, **at, method="softmax_moe", metric="backtrack")
    yield line(-0.2 * sign, **at, method="softmax_moe", metric="backtrack_below_red")
    yield line(-0.3 * sign, **at | {"group": "all"}, method="softmax_moe", metric="row_extra_flips_below_red")


def plus(sign):
    for task, variant in (("task1", "chosen"), ("task2", "operations/chosen")):
        for method in ("red_plus_base", "red"):
            gap = line(0.2 * sign, task=task, method=method, metric="value_accuracy_below_red_plus")
            yield gap | {"variant": variant}
        yield line(0.6, task=task, method="red_plus", metric="value_accuracy") | {"variant": variant}


def serving(sign):
    at = {"variant": "serving", "batch": 1, "prompt": config.load("record").sparse.prompt, "method": "moe_top1"}
    for other in ("dense_a", "dense_b"):
        yield line(1 + 0.5 * sign, **at, metric=f"user_tokens_per_second_over_{other}")


def growth(sign):
    yield line(1 + sign, curve="width", x=1024, method="moe_top1", metric="user_tokens_per_second_over_dense_b")


def quality(sign):
    yield line(-0.2 * sign, method="moe_top1", metric="loss_minus_dense_b")


CASES = {  # notebook: its made-up tables, and what is said where RED (or the sparse model) is better, worse, level
    "05_uniform_averaging": (
        {"task1": averaging},
        "RED with its router is above RED with equal weights by 0.300 [0.290, 0.310]",
        "RED with its router is below RED with equal weights by 0.300 [0.290, 0.310]",
        "RED with its router and RED with equal weights do not differ measurably (0.000 [-0.010, 0.010])",
    ),
    "06_softmax_mixture": (
        {"task1": mixture},
        "finds the expert in 0.700 [0.690, 0.710]: more often than the gate.",
        "finds the expert in 0.300 [0.290, 0.310]: less often than the gate.",
        "finds the expert in 0.500 [0.490, 0.510]: the intervals overlap.",
    ),
    "12_boundaries_and_operand_maps": (
        {"boundary_smoothness": smoothness},
        "RED is smoother. In needless flips of the most probable range along rows of the operand map, RED is below",
        "the mixture is smoother. In needless flips of the most probable range along rows of the operand map, RED is a",
        "no measurable difference. In needless flips",
    ),
    "13_where_the_arithmetic_is": (
        {"arithmetic_probes": probes, "arithmetic_agreement": links},
        "RED's value is right more often where a linear probe is right about the tens digit (0.200 [0.190, 0.210]",
        "RED's value is right less often where a linear probe is right about the tens digit (-0.200 [-0.210, -0.190]",
        "RED's errors do not measurably follow linear probes of the tens digit (0.000 [-0.010, 0.010], n = 100)",
    ),
    "18_modularity": (
        {"modularity": exchanged},
        "Of 2 other experts in the place of one, none is measurably worse and 2 are better",
        "Of 2 other experts in the place of one, 2 are measurably worse and none is better",
        "Of 2 other experts in the place of one, none is measurably worse and none is better",
    ),
    "19_ablations": (
        {"ablations": changes, "modularity_ranges": one_expert},
        "texts, on unseen sums none costs anything measurable, *last token* gains most, 0.200 [0.190, 0.210]; 0 of 1",
        "texts, on unseen sums *last token* costs most, -0.200 [-0.210, -0.190]; 0 of 1 changes are not measurable",
        "texts, on unseen sums none costs anything measurable; 1 of 1 changes are not measurable",
    ),
    "20_red_plus": (
        {"red_plus": plus},
        "`red_plus` is above its base by 0.200 [0.190, 0.210] on unseen sums and above its base",
        "`red_plus` is below its base by 0.200 [0.190, 0.210] on unseen sums and below its base",
        "`red_plus` is level with its base (0.000 [-0.010, 0.010]) on unseen sums and level with its base",
    ),
    "23_sparse_against_dense": (
        {"sparse_serving": serving, "sparse_quality": quality, "sparse_growth": growth},
        "cheaper to serve than a dense model of its size at this width, and its loss on held-out documents is below",
        "dearer to serve than a dense model of its size at this width, and its loss on held-out documents is above",
        "neither clearly cheaper nor clearly dearer to serve",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_opposite_numbers_give_the_opposite_sentence(name):
    tables, *expected = CASES[name]
    for sign, words in zip((1, -1, 0), expected, strict=True):
        said = tell(name, **{table: list(rows(sign)) for table, rows in tables.items()})
        assert words in said
        assert not [other for other in expected if other != words and other in said]


def test_one_expert_with_more_texts_is_told_where_it_was_measured(monkeypatch):
    tables = {"ablations": list(changes(1)), "modularity_ranges": list(one_expert(1))}
    for there in (True, False):
        monkeypatch.setattr(programs, "available", lambda profile, name, there=there: there)
        assert ("one expert for everything is above RED by 0.100" in tell("19_ablations", **tables)) == there


def test_verdicts_are_counted_in_whole_words():
    found = pd.DataFrame({"verdict": ["holds", "does not hold", "does not hold", "undecided"]})
    assert hold(found) == "1 holds, 2 do not and 1 is undecided"
    assert hold(found.iloc[1:2]) == "0 hold, 1 does not and 0 are undecided"


def test_the_claims_are_counted_by_verdict():
    made = pd.DataFrame({"kind": ["number", "contradiction"], "verdict": ["reproduced", "contradicted"]})
    made = made.assign(document=["main", "savings"])
    said = tell("25_claims", verdicts=made)
    assert said.startswith("Of 2 claims 2 could be tested: reproduced 1, ")
    assert said.endswith(
        "Of the contradicted ones 1 are places where a document contradicts itself; 1 of all are the source's, on RED."
    )


def test_an_answer_without_evidence_says_so(monkeypatch):
    frames = {"task1": pd.DataFrame(mixture(1))}
    monkeypatch.setattr(study.answers, "table", lambda profile, name: frames[name])
    said = {name: answer(config.load(name), "06_softmax_mixture") for name in ("smoke", "record")}
    assert said["smoke"] == f"**{figures.NO_EVIDENCE}:** {said['record']}"
