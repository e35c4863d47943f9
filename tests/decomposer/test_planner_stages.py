"""The planner's stages, tables and figures, from a small run of the tiny backbone."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from redlib import config, figures, results, study
from redlib.decomposer import errors
from redlib.execution import symbolic
from redlib.expressions import Expression
from redlib.programs import Program
from redlib.study import assembly_planner, operations, planner, separate
from redlib.study.data import read_pool
from redlib.study.planner import chains as planner_chains
from redlib.study.planner import tables as planner_tables

SMALL = {"decomposer.rows": 300, "decomposer.seeds": {"structure": 1}, "bootstrap": 50}
COLUMNS = {
    *("row", "text", "structure", "range", "operations", "split", "part", "seed", "method", "program"),
    *("predicted_program", "exact", "kind", "same_meaning", "step_probabilities"),
}


@pytest.fixture(scope="module")
def profile():
    return config.load("smoke", SMALL)


@pytest.fixture(scope="module")
def predictions(cache, profile):
    stage = planner.predictions_stage(profile, "structure")
    return pd.read_parquet(stage.run(say=lambda line: None) / "predictions.parquet")


def test_every_test_row_has_a_program_of_every_method(profile, predictions):
    assert set(predictions.columns) == COLUMNS
    pool = read_pool(planner.pool(profile).run())
    rows = predictions.groupby("method")["row"].agg(list)
    assert list(rows.index) == sorted(planner.METHODS)
    assert rows.map(sorted).map(tuple).nunique() == 1
    assert len(rows.iloc[0]) == 30
    for row in predictions.itertuples():
        gold = pool.iloc[row.row]
        assert (row.text, row.structure, row.range) == (gold["text"], gold["structure"], gold["range"])
        assert row.program == Program.from_expression(Expression.read(gold["expression"])).text
        assert row.exact == (row.predicted_program == row.program) == (row.kind == errors.RIGHT)
        assert all(0 <= p <= 1 for p in row.step_probabilities)
        assert len(row.step_probabilities) == row.predicted_program.count("\n") + 1
    by_method = predictions.groupby("method")
    assert by_method["exact"].all()["symbolic"]
    for method in ("planner_searched", "planner_grounded", "planner"):
        assert all(map(errors.read, by_method.get_group(method)["predicted_program"])), "kept to the grammar"


def test_the_pool_of_closed_chains_keeps_partial_results_in_the_labels(cache, profile):
    pool = read_pool(planner.pool(profile).run())
    assert pool["operations"].value_counts().to_dict() == {2: 60, 3: 120, 4: 120}
    assert all(2 <= x <= 100 for text in pool["expression"] for x in Expression.read(text).partials)
    free = read_pool(planner.pool(config.load("smoke", SMALL | {"decomposer.chains": "source"})).run())
    assert not all(2 <= x <= 100 for text in free["expression"] for x in Expression.read(text).partials)


def test_a_planner_is_made_again_only_for_what_it_depends_on(profile):
    def keys(**changes):
        dotted = {f"decomposer.{name.replace('__', '.')}": value for name, value in changes.items()}
        p = config.load("smoke", SMALL | dotted)
        return planner.states_stage(p).key, planner.trained_stage(p, "structure", 0).key

    states, trained = keys()
    assert keys(seeds={"structure": 2, "text": 1}) == (states, trained)
    assert keys(training__lr=1e-3)[0] == states
    assert keys(training__lr=1e-3)[1] != trained
    assert keys(training__products="bfloat16")[1] != trained
    assert keys(max_operations=5)[0] == states
    assert keys(max_operations=5)[1] != trained
    assert keys(rows=350)[0] != states
    seeds = {planner.trained_stage(profile, split, seed).key for split in ("text", "structure") for seed in (0, 1)}
    assert len(seeds) == 4


def test_a_trained_planner_is_loaded_by_split_and_seed(cache, profile, predictions):
    loaded = planner.load(profile)
    own = predictions[predictions["method"] == "planner_searched"]
    assert [plan.written for plan in loaded.decompose_all(own["text"].tolist())] == own["predicted_program"].tolist()
    assert (loaded.passport["split"], loaded.passport["seed"], loaded.passport["profile"]) == ("structure", 0, "smoke")
    for split, seed in (("text", 0), ("structure", 1)):
        with pytest.raises(
            ValueError, match=rf"no planner of split '{split}' and seed {seed}; it has: structure 0\.\.0"
        ):
            planner.load(profile, split, seed)
    with pytest.raises(ValueError, match="profile 'record' never trains a planner"):
        planner.load(config.load("record"))


def test_a_planner_trained_with_narrow_products_speaks_with_wide_ones(profile, predictions):
    stage = planner.trained_stage(profile, "structure", 0)
    wide, narrow = (
        planner.fit(profile, stage, profile.decomposer.training.model_copy(update={"products": products}))
        for products in ("float32", "bfloat16")
    )
    assert {p.dtype for p in narrow[0].writer.parameters()} == {torch.float32}
    said = narrow[0].writer.readout(torch.ones(1, narrow[0].writer.readout.in_features))
    assert not torch.equal(said, said.bfloat16().float()), "what it says after training has all its digits"
    assert not narrow[1]["train_loss"].equals(wide[1]["train_loss"])
    assert narrow[1]["train_loss"].to_numpy() == pytest.approx(wide[1]["train_loss"].to_numpy(), rel=0.1)


# ---- tables ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(cache, profile, predictions):
    return {name: study.table(profile, name, say=lambda line: None) for name in planner_tables.TABLES}


def test_the_study_serves_the_tables_with_what_they_come_from(profile, tables):
    assert {name for table in tables.values() for name in table["task"]} == {"decomposed"}
    assert {name for table in tables.values() for name in table["variant"]} == {"closed"}
    for table in tables.values():
        results.validate(table)
    exact = results.pick(tables["planner"], method="symbolic", group="all", seed="all", metric="program_exact")
    assert (exact["value"], exact["n"]) == (1, 30)
    about = study.about(profile, "planner")
    assert about.loc["programs", ""] == "300, closed chains"
    assert about.loc["planners by split", ""] == "structure 1"


def test_every_figure_is_drawn_from_its_table(tables):
    drawn = {"profile": "smoke", "backbone": "tiny", "note": figures.NO_EVIDENCE}
    programs = figures.draw_programs(tables["planner"], **drawn)
    assert [tick.get_text() for tick in programs.axes[0].get_xticklabels()] == ["2", "3", "4", "all"]
    bars = figures.draw_planner_errors(tables["planner_errors"], **drawn).axes[0].patches
    ways = [method for method in planner.METHODS if method != "symbolic"]
    rates = results.select(tables["planner_errors"], metric="error_rate", method=ways)
    assert sum(bar.get_width() for bar in bars) == pytest.approx(rates["value"].sum())
    curves = figures.draw_planner_curves(tables["planner_curves"], **drawn)
    assert len(curves.axes) == 2
    with pytest.raises(LookupError, match="metric=program_exact"):
        figures.draw_programs(tables["planner_errors"].assign(seed="all"), **drawn)


# ---- other chains, other precisions, other processes ---------------------------------------------------------------


def quiet(line):
    pass


def test_planners_are_asked_chains_of_the_other_kind_whose_structures_they_never_saw(profile, cache, predictions):
    stage = planner_chains.predictions_stage(profile, "structure", "source")
    said = pd.read_parquet(stage.run(quiet) / "predictions.parquet")
    assert set(said.columns) == COLUMNS
    gold = read_pool(operations.chains(profile, "source").folder)
    asked = said[said["method"] == "planner"]
    assert 10 < len(asked) <= 15
    assert set(asked["text"]) <= set(gold["text"]), "those that executors are asked"
    train = planner.records_of(planner.trained_stage(profile, "structure", 0))
    rows = planner.parts_of(train, "structure", 0)["train"]
    assert not set(asked["structure"]) & set(train["structure"].iloc[rows])
    assert said.loc[said["method"] == "symbolic", "exact"].all()
    table = study.table(profile, "planner_chains", say=quiet)
    results.validate(table)
    assert set(table["variant"]) == {"closed/chains=source"}
    assert {"program_exact", "program_meaning", "error_rate"} <= set(table["metric"])


def test_no_row_that_a_planner_was_trained_on_is_asked(profile, cache):
    records = planner.records_of(planner.trained_stage(profile, "structure", 0))
    for split in ("structure", "text"):
        fresh = planner_chains.unseen(records, records, split, 0)
        train = planner.parts_of(records, split, 0)["train"]
        assert not fresh[train].any()
        assert fresh.sum() == len(records) - len(train)
    held = planner_chains.unseen(records, records, "phrasing", 0)
    assert np.flatnonzero(held).tolist() == planner.parts_of(records, "phrasing", 0)["test"].tolist()


def test_a_planner_from_a_process_of_its_own_is_that_of_this_process_bit_for_bit(profile, cache, predictions):
    stages = [separate.planner_stage(profile, apart) for apart in (False, True)]
    one, other = ({"planner": separate.loaded(profile, replaced(stage)).writer} for stage in stages)
    assert separate.equal(one, other)
    assert not (stages[0].folder / separate.PROCESS).exists()
    assert (stages[1].folder / separate.PROCESS).is_file()
    other["planner"].readout.weight.data[0, 0] += 1
    assert not separate.equal(one, other)


def replaced(stage):
    stage.run(quiet)
    return stage


def test_a_planner_in_bfloat16_drifts_a_little_and_the_whole_system_is_measured_with_it(profile, cache, predictions):
    own = planner.load(profile)
    cast = separate.cast(own, torch.bfloat16)
    assert {p.dtype for p in cast.writer.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in own.writer.parameters()} == {torch.float32}
    stage = dataclasses.replace(
        planner.predictions_stage(profile, "structure"),
        inputs={
            "pool": planner.pool(profile),
            "states": planner.states_stage(profile),
            "planner": planner.trained_stage(profile, "structure", 0),
            "planned": planner.predictions_stage(profile, "structure"),
            **{
                f"{way} planner": separate.planner_stage(profile, n == 1)
                for n, way in enumerate(("single", "separate"))
            },
        },
    )
    for made in stage.inputs.values():
        made.run(quiet)
    looks = dict.fromkeys(assembly_planner.WAYS, symbolic(operations.labels(profile)))
    lines = {key: value for *key, value, _ in assembly_planner.lines(profile, stage, looks) for key in [tuple(key)]}
    way = assembly_planner.WAYS[-1]
    assert 0 < lines[way, "planner", "logit_drift"] < 0.05
    assert lines["separate", "planner", "equal"] == 1
    mine = predictions[predictions["method"] == "planner_searched"]
    assert lines["single", "planner", "program_exact"] == mine["exact"].mean()
    for one in assembly_planner.WAYS:  # arithmetic executes: what is wrong is the planner's
        assert lines[one, "questions", "value_accuracy"] >= lines[one, "planner", "program_exact"]


def test_decoding_has_to_confirm_what_scoring_says(profile, cache, predictions, monkeypatch):
    loaded = planner.load(profile)
    stage = planner.states_stage(profile)
    records = planner.records_of(stage)
    sequences = planner.sequences_of(loaded, records, stage)
    rows = np.arange(6)
    asked, ways = records["text"].iloc[rows].tolist(), planner.DECODINGS
    assert planner.written(loaded, records["text"], sequences, rows) == [loaded.decompose_all(asked, w) for w in ways]
    ahead, logs = planner.decomposer.margins(loaded.writer, sequences, rows, [None] * (len(ways) - 1))
    monkeypatch.setattr(planner.decomposer, "margins", lambda *_: (np.ones_like(ahead), logs))
    with pytest.raises(AssertionError, match="does not give what scoring says"):
        planner.written(loaded, records["text"], sequences, rows)
