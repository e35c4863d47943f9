"""Trained operation experts: their step table against the model, their tables, and parts from other processes."""

import os
import re

import pandas as pd
import pytest
import torch
from sklearn.metrics import f1_score

from redlib import config, evaluation, features, results, study, training
from redlib.datasets import steps
from redlib.execution import as_steps, encode, run
from redlib.expressions import OPERATORS, Expression
from redlib.models.executors import BY_RANGE, EXECUTORS, ORACLE, executor
from redlib.programs import SIGN, Program
from redlib.study import execution, execution_tables, methods, operations, separate
from redlib.study.data import open_backbone, read_pool
from redlib.study.settings import Data


@pytest.fixture(scope="module")
def profile():
    changes = {"domains": ["closed"], "seeds": {"text": 1, "structure": 2}, "chains": 50}
    changes = {f"operations.{name}": value for name, value in changes.items()}
    return config.load("smoke", changes | {"decomposer.seeds": {}})


@pytest.fixture(scope="module")
def made(cache, profile):
    """The executors of the structure split, trained: stage and frame."""
    stage = operations.executors_stage(profile, "closed", "structure")
    return stage, pd.read_parquet(stage.run(lambda line: None) / "steps.parquet")


# ---- training ----------------------------------------------------------------------------------------------------


def test_an_expert_of_an_operation_learns_from_its_own_rows_alone(made, profile):
    s = operations.setting(profile, "closed", "structure")
    data = Data(s)
    assert s.K == len(OPERATORS) == 2
    assert operations.by_range(profile, "closed", "structure").K == s.labels.K
    for k, operator in enumerate(OPERATORS):
        own = data.of_expert(data.rows["train"][0], k)
        assert all(operator in text for text in data.pool["expression"].iloc[own])
    history = pd.read_csv(methods.experts_stage(s).folder / "history.csv")
    assert sorted(history["member"].unique()) == list(range(2 * s.seeds))
    experts = methods.load_parts(s, 0)["experts"]
    assert not torch.equal(experts.down.weight[0], experts.down.weight[1])
    assert not torch.equal(experts.up.weight[0], methods.load_parts(s, 1)["experts"].up.weight[0])


def test_experts_of_operations_and_of_ranges_stand_on_the_same_base(profile):
    both = operations.setting(profile, "closed", "text"), operations.by_range(profile, "closed", "text")
    assert len({methods.base_stage(s).key for s in both}) == 1
    assert len({methods.experts_stage(s).key for s in both}) == 2


def test_the_learning_rate_falls_along_half_a_cosine():
    assert [training.half_cosine(done, 0.1) for done in (0, 0.5, 1)] == pytest.approx([1, 0.55, 0.1])


# ---- the step table ----------------------------------------------------------------------------------------------


def test_every_executor_says_something_of_every_reachable_step(made, profile):
    _, said = made
    population = operations.reachable(profile).steps()
    assert len(said) == len(EXECUTORS) * 2 * len(population)
    assert said.groupby(["seed", "method"]).size().eq(len(population)).all()
    one = said[said["seed"] == 0]
    assert one[one["method"] == "red"][["alpha_1", "alpha_2"]].sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-5)
    assert one[one["method"] == ORACLE]["route"].tolist() == [OPERATORS.index(op) for _, op, _ in population]
    assert (one[one["method"] == BY_RANGE]["route"] < operations.labels(profile).K).all()


def test_looking_up_a_step_is_running_the_model_on_it(made, profile):
    _, said = made
    s = operations.setting(profile, "closed", "structure")
    asked = [operations.reachable(profile).steps()[n] for n in (0, 1_234, 5_000, 9_701)]
    point = features.Point(s.recipe.layer, s.recipe.pooling)
    texts = [steps.canonical(step) for step in asked]
    x = torch.from_numpy(features.compute(open_backbone(profile.backbone), texts, [point])[point])
    table = operations.step_tables(profile, said)[1]
    for name in ("red", "softmax_moe", "uniform_average"):
        method = executor(name, s.labels, methods.load_parts(s, 1), s.K)
        values = evaluation.predict(method, x, s.labels)["predicted_value"].tolist()
        assert [table.step(name)(*step) for step in asked] == values


def test_flags_are_exact_over_the_whole_population(made, profile):
    population, within = operations.reachable(profile).steps(), operations.domain(profile, "closed")
    plans = encode([Program.read(f"Step 1: {steps.canonical(step)} = x1\nAnswer: x1") for step in population])
    done = run(plans, operations.step_tables(profile, made[1])[0].look("red"), within)
    inside = set(within.steps())
    assert done.flagged.tolist() == [step not in inside for step in population]


# ---- tables ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers(made, profile):
    """What became of the gold programs of the structure split, and the stage that read them."""
    read = {name: stage for name, stage in execution.inputs(profile, {}).items() if "text" not in name}
    for stage in read.values():
        stage.run(lambda line: None)
    arm = execution.Arm("closed", "closed", "structure")
    holder = execution_tables.Stage("holder", 1, {}, lambda stage, out: None, read)
    return execution.answers(profile, arm, holder)


def test_answers_can_be_evaluated_and_the_ceiling_is_always_right(answers, profile):
    space = operations.labels(profile)
    scores = evaluation.evaluate(answers, space, "decomposed", resamples=20, by_range=False)
    ceiling = scores[(scores["method"] == "symbolic") & (scores["metric"] == "value_accuracy")]
    assert (ceiling["value"] == 1).all()
    assert {"all", "ops=2", "ops=3", "ops=4"} <= set(scores["group"])
    assert any(group.startswith("unseen=") for group in scores["group"])
    assert not set(scores["group"]) & set(space.names)
    assert set(answers["method"]) == set(execution.METHODS)
    keys = {"method": "red", "metric": "range_macro_f1", "seed": "0"}
    asked = answers[(answers["method"] == "red") & (answers["seed"] == 0)]
    for group, rows in (("all", asked), *((f"ops={n}", asked[asked["operations"] == n]) for n in (2, 3, 4))):
        wanted = f1_score(rows["range"], rows["predicted_range"], labels=sorted(set(rows["range"])), average="macro")
        assert results.pick(scores, group=group, **keys)["value"] == pytest.approx(wanted)


def test_a_planners_programs_are_executed_by_the_experts_of_every_seed(made, answers, profile):
    chains = read_pool(operations.chains(profile, "closed").folder).iloc[:12]
    gold = [Program.from_expression(Expression.read(text)).text for text in chains["expression"]]
    said = chains[execution.ITEMS].assign(
        text=chains["text"], program=gold, predicted_program=["no program", *gold[1:]]
    )
    said = said.assign(method=execution.PLANNER, part="test", seed=0, step_probabilities=[[1.0]] * len(said))

    def write(stage, out):
        said.to_parquet(out / "predictions.parquet")

    arm = execution.Arm("closed", "closed", "structure", "predicted")
    planned = execution_tables.Stage("a planner's programs", 1, {}, write, {})
    read = execution.inputs(profile, {execution.asks("structure", "closed"): planned}, ["structure"])
    for stage in read.values():
        stage.run(lambda line: None)
    found = execution.answers(profile, arm, execution_tables.Stage("holder", 1, {}, lambda stage, out: None, read))
    both, symbolic = found[found["method"] == "red"], found[found["method"] == execution.SYMBOLIC]
    assert both.groupby("seed").size().tolist() == [12, 12]
    for seed, rows in both.groupby("seed"):
        known = answers[(answers["seed"] == seed) & (answers["method"] == "red")].set_index("row")
        assert rows["predicted_value"].tolist()[1:] == known.loc[rows["row"][1:], "predicted_value"].tolist()
        assert rows["kind"].iloc[0] == "planner"
    readable = symbolic["row"] != chains["row"].iloc[0]
    assert not symbolic["flagged"][readable].any(), "arithmetic knows every step"


def test_the_budget_of_every_executor_adds_up(answers):
    tidy = execution_tables.budget(answers, 20)
    kinds = tidy[tidy["metric"].isin(["right", "cancelled", "planner", "inside", "outside"])]
    assert kinds.groupby(["method", "group"])["value"].sum().to_numpy() == pytest.approx(1)
    assert (kinds[kinds["metric"] == "planner"]["value"] == 0).all(), "gold programs are never wrong"
    flags = tidy[tidy["metric"].str.endswith("_flagged")].groupby(["method", "group"])["value"].sum()
    whole = tidy[tidy["metric"] == "flagged"].set_index(["method", "group"])["value"]
    assert flags.reindex(whole.index).to_numpy() == pytest.approx(whole.to_numpy(), abs=1e-6)


def test_single_steps_are_judged_exactly(made, profile):
    _, said = made
    judged = execution_tables.judged(profile, "closed", "structure", said)
    assert judged["inside"].sum() == len(EXECUTORS) * 2 * len(operations.domain(profile, "closed").steps())
    sign = judged["operator"].map(SIGN)
    assert (judged["value_right"] == (judged["predicted_value"] == judged["first"] + sign * judged["second"])).all()
    train = execution.seen(profile, "closed", "structure")
    for seed in (0, 1):
        mine = judged[(judged["seed"] == seed) & (judged["method"] == "red")]
        keys = {
            f"+{min(a, b)}+{max(a, b)}" if op == "+" else f"+{a}-{b}"
            for a, op, b in mine[~mine["unseen"]][["first", "operator", "second"]].itertuples(index=False)
        }
        assert keys <= train[seed]
    tidy = execution_tables.step_accuracies(judged)
    every = tidy[(tidy["method"] == "red") & (tidy["metric"] == "value_accuracy") & (tidy["seed"] == "0")]
    by = every.set_index("group")
    assert by.loc["all", "n"] == by.loc["addition", "n"] + by.loc["subtraction", "n"]
    assert by.loc["addition", "n"] == by.loc[["addition/unseen=no", "addition/unseen=yes"], "n"].sum()


@pytest.fixture(scope="module")
def errors(cache, profile):
    """execution_errors.csv of both splits, and what was said of the structure split's steps."""
    read = operations.executors_stage(profile, "closed", "structure").run(lambda line: None) / "steps.parquet"
    said = execution_tables.judged(profile, "closed", "structure", pd.read_parquet(read))
    return study.table(profile, "execution_errors", say=lambda line: None), said


def test_the_error_map_has_every_executor_and_every_step_once_and_right_as_often_as_it_was(errors, profile):
    tidy, judged = errors
    results.validate(tidy)
    assert set(tidy["method"]) == set(EXECUTORS)
    cells = as_steps(results.select(tidy, split="structure"))
    keys = ["method", "operator", "first", "second"]
    assert not cells.duplicated(keys).any()
    assert (cells["n"] == 2).all(), "both seeds are asked"
    label = judged[judged["label"]].assign(operator=judged["operator"].map(execution_tables.NAMES))
    wanted = label.groupby(keys)["value_right"].mean()
    pd.testing.assert_series_equal(cells.set_index(keys)["value"].sort_index(), wanted, check_names=False)
    inside = cells[cells["group"] == "inside"]
    assert inside.groupby("method").size().eq(len(operations.domain(profile, "closed").steps())).all()


def test_the_error_map_is_a_line_a_first_operand_and_not_a_row_a_step(errors):
    tidy, judged = errors
    steps = tidy["right"].str.split().str.len()
    assert steps.sum() == 2 * judged[judged["label"] & (judged["seed"] == 0)].shape[0]
    assert len(tidy) < steps.sum() / 30


def test_wrong_shares_by_range_are_those_of_single_steps_and_add_up_to_the_accuracy_of_all(errors, profile):
    tidy, judged = errors
    space = operations.labels(profile)
    found = execution_tables.wrong_by_range(results.select(tidy, split="structure"), space)
    row = results.pick(found, method="top1", operator="subtraction", range="R2")
    lo, hi = space.bounds[1]
    mine = judged[(judged["method"] == "top1") & (judged["operator"] == "-") & judged["result"].between(lo, hi)]
    assert (row["value"], row["n"]) == (pytest.approx((~mine["value_right"]).mean()), len(mine))
    exact = execution_tables.step_accuracies(judged)
    exact = results.select(exact, group="all", seed="all", metric="value_accuracy").set_index("method")["value"]
    whole = (found["value"] * found["n"]).groupby(found["method"]).sum() / found.groupby("method")["n"].sum()
    assert whole.to_dict() == pytest.approx((1 - exact).to_dict()), "closed: every step with a label is inside"


def test_a_planners_text_that_is_no_program_is_no_answer():
    assert execution.readable("Step 1: 3 + 4 = x1") is None
    assert execution.readable("Step 1: 3 * 4 = x1\nAnswer: x1") is None
    assert execution.readable("Step 1: x2 + 4 = x1\nAnswer: x1") is None
    assert execution.readable("Step 1: 3 / 4 = x1\nAnswer: x1") is None
    assert execution.readable("Step 1: 3 + 4 = x1\nAnswer: x1").execute() == 7


# ---- processes of their own --------------------------------------------------------------------------------------


def test_parts_from_processes_of_their_own_are_those_of_one_process_bit_for_bit(made, profile):
    ways = {apart: separate.stages(profile, "closed", "text", apart) for apart in (False, True)}
    for stages in ways.values():
        for stage in stages.values():
            stage.run(lambda line: None)
    assert not {s.key for s in ways[False].values()} & {s.key for s in ways[True].values()}
    one, other = (separate.assembled(stages) for stages in ways.values())
    assert set(one) == {"base", "classifier", "experts", "router"}
    assert separate.equal(one, other)
    upstream = [made for stage in ways[True].values() for made in (stage, *stage.upstream())]
    files = {stage.folder / separate.PROCESS for stage in upstream}
    pids = [int(re.search(r"\d+", file.read_text()).group()) for file in files if file.is_file()]
    assert len(set(pids)) == len(separate.PARTS)
    assert os.getpid() not in pids
    other["router"].last.bias.data += 1
    assert not separate.equal(one, other)


def test_a_failure_in_another_process_is_told(own_cache, profile, tmp_path):
    stage = separate.elsewhere(profile, "closed", "text", "+")
    with pytest.raises((OSError, ValueError, FileNotFoundError)):
        stage.make(stage, tmp_path)  # its base was never made here
