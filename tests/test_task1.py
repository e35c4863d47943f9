"""The stages of Task 1 at smoke size: what is frozen stays frozen, runs repeat, tables agree with each other."""

import numpy as np
import pandas as pd
import pytest
import torch

from redlib import backbone, config, datasets, features, models, modules, results
from redlib.study import TABLES, methods, table, task1
from redlib.study.data import open_backbone
from redlib.study.settings import Data

SMALL = {"task1.rows": 250, "task1.seeds": {"text": 2, "structure": 1}, "task1.source_seeds": {"structure": 1}}


@pytest.fixture
def profile(cache):
    return config.load("smoke", SMALL)


def test_every_table_is_made_and_validates(profile):
    for name in TABLES:
        frame = table(profile, name, say=lambda line: None)
        results.validate(frame)
        assert set(frame["run"]) == set(results.known_runs(TABLES[name](profile).folder))


def test_the_main_table_has_every_method_on_every_split(profile):
    frame = table(profile, "task1")
    for variant, split in (("chosen", "text"), ("chosen", "structure"), ("source", "structure")):
        rows = results.select(frame, variant=variant, split=split, part="test", group="all", metric="value_accuracy")
        assert set(rows["method"]) == set(models.METHODS)


def test_pairs_are_mapped_where_they_are_new_if_any_seed_is_asked_there(profile):
    assert set(table(profile, "task1_pairs")["split"]) == {"structure"}
    alone = config.load("smoke", SMALL | {"task1.seeds": {"text": 1}, "task1.source_seeds": {}})
    assert set(table(alone, "task1_pairs")["split"]) == {"text"}


def test_red_and_the_mixture_of_its_own_experts_never_differ(profile):
    for s in task1.settings(profile):
        frame = pd.read_parquet(methods.predictions_stage(s).run() / "predictions.parquet")
        frame = frame[frame["part"] == "test"].set_index(["seed", "row"])
        red, mixture = (frame[frame["method"] == name] for name in ("red", "moe_same_experts"))
        np.testing.assert_array_equal(red["router_range"], mixture["router_range"])
        np.testing.assert_allclose(red["confidence"], mixture["confidence"], rtol=1e-3)


def test_base_and_classifier_are_the_same_bits_in_every_later_stage(profile):
    s = task1.setting(profile, "chosen", "text")
    before = modules.load(methods.base_stage(s).run() / "base-1.safetensors")[0]
    methods.controls_stage(s).run()
    after = methods.load_parts(s, 1)
    for name in ("base", "classifier"):
        for a, b in zip(before[name].state_dict().values(), after[name].state_dict().values(), strict=True):
            assert torch.equal(a, b)


def test_the_source_recipe_tunes_its_top_layers_and_nothing_else(profile):
    s = task1.setting(profile, "source", "structure")
    bone = open_backbone(profile.backbone)
    weights = {name: p.clone() for name, p in bone.model.named_parameters()}
    base = methods.load_parts(s, 0, bone)["base"]
    fresh = bone.top(s.recipe.tuned_layers)
    changed = {
        name for name, p in base.top.named_parameters() if not torch.equal(p, dict(fresh.named_parameters())[name])
    }
    assert changed
    assert not any(name.startswith("norm") for name in changed)
    assert all(torch.equal(p, weights[name]) for name, p in bone.model.named_parameters())
    assert bone.weights_id == backbone.load("tiny").weights_id


def test_the_stored_h_of_a_tuned_base_is_what_its_layers_say_of_the_text(profile):
    s = task1.setting(profile, "source", "structure")
    data = Data(s, methods.base_stage(s).run())
    bone = open_backbone(profile.backbone)
    base = methods.load_parts(s, 0, bone)["base"]
    rows = [3, 77, 200]
    states = features.token_states(bone, data.pool["text"].iloc[rows].tolist(), bone.layers - s.recipe.tuned_layers)
    with torch.no_grad():
        h = base(*states.batch(range(3)))[0]
    torch.testing.assert_close(h, data.x[0, rows], rtol=1e-3, atol=1e-4)  # states are kept in fp16


@pytest.mark.parametrize(("recipe", "split"), [("chosen", "text"), ("source", "structure")])
def test_a_predictor_says_of_a_text_what_the_study_predicted(profile, recipe, split):
    s = task1.setting(profile, recipe, split)
    frame = pd.read_parquet(methods.predictions_stage(s).run() / "predictions.parquet")
    frame = frame[(frame["method"] == "red") & (frame["part"] == "test") & (frame["seed"] == 0)].head(20)
    texts = Data(s, methods.base_stage(s).run()).pool.set_index("row")["text"]
    said = task1.predictor(profile, "red", split, recipe).predict(texts.loc[frame["row"]].tolist())
    np.testing.assert_array_equal(said["predicted_value"], frame["predicted_value"])
    np.testing.assert_allclose(said["confidence"], frame["confidence"], rtol=1e-3)


def test_the_base_sees_a_tenth_of_the_training_rows_of_every_range(profile):
    s = task1.setting(profile, "chosen", "text")
    data = Data(s)
    share = data.by_range(data.rows["train"][0], s.recipe.base_share, 0)
    assert set(share) <= set(data.rows["train"][0])
    counts = data.pool["range"].iloc[share].value_counts()
    assert set(counts) == {round(0.1 * len(data.rows["train"][0]) / s.labels.K)}


def test_each_expert_sees_its_own_range_only(profile):
    data = Data(task1.setting(profile, "chosen", "structure"))
    rows = data.rows["train"][0]
    parts = [data.of_range(rows, k) for k in range(data.setting.labels.K)]
    assert sorted(np.concatenate(parts)) == sorted(rows)
    for k, part in enumerate(parts):
        low, high = data.setting.labels.bounds[k]
        assert data.pool["value"].iloc[part].between(low, high).all()


@pytest.mark.parametrize("subset", [100, "pairs", "pairs_balanced"])
def test_a_subset_of_the_training_rows_leaves_the_test_rows_alone(profile, subset):
    whole = Data(task1.setting(profile, "chosen", "structure"))
    small = Data(task1.setting(profile, "chosen", "structure", subset=subset))
    assert np.array_equal(whole.rows["test"][0], small.rows["test"][0])
    chosen = small.rows["train"][0]
    assert set(chosen) <= set(whole.rows["train"][0])
    pool = small.pool.iloc[chosen]
    if subset == 100:
        assert len(chosen) == 100
    else:
        assert pool["expression"].is_unique
    if subset == "pairs_balanced":
        assert pool["range"].value_counts().nunique() == 1


def test_the_same_profile_writes_identical_tables(profile, tmp_path, monkeypatch):
    first = (TABLES["task1"](profile).run() / "task1.csv").read_bytes()
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path / "again"))
    assert (TABLES["task1"](profile).run() / "task1.csv").read_bytes() == first


def test_other_fields_of_the_profile_leave_a_stage_alone_and_its_own_do_not(profile):
    key = methods.experts_stage(task1.setting(profile, "chosen", "text")).key
    for override, same in (
        ({"probe.rows": 300}, True),
        ({"chosen.routers.lr": 0.5}, True),
        ({"bootstrap": 7}, True),
        ({"chosen.experts.lr": 0.5}, False),
        ({"chosen.base.lr": 0.5}, False),
        ({"task1.rows": 300}, False),
    ):
        other = config.load("smoke", SMALL | override)
        assert (methods.experts_stage(task1.setting(other, "chosen", "text")).key == key) is same, override


def test_features_of_another_backbone_are_refused(profile):
    s = task1.setting(profile, "source", "structure")

    class Other:
        weights_id, display = "0" * 64, "another model"

    with pytest.raises(ValueError, match="but the backbone given is another model"):
        methods.load_parts(s, 0, Other())


def test_what_cannot_be_predicted_is_said_in_a_sentence(profile):
    with pytest.raises(ValueError, match="unknown method 'rde'; valid methods: global_head"):
        task1.predictor(profile, "rde")
    with pytest.raises(ValueError, match="seed 7 is not trained for recipe chosen, split text; valid seeds: 0, 1"):
        task1.predictor(profile, "red", "text", seed=7)
    with pytest.raises(ValueError, match="split phrasing; valid seeds: none"):
        task1.predictor(profile, "red", "phrasing")
    with pytest.raises(ValueError, match="profile 'record' never trains"):
        task1.predictor(config.load("record"), "red")
    with pytest.raises(ValueError, match="unknown table 'task9'; valid tables: ablations"):
        table(profile, "task9")
    with pytest.raises(ValueError, match="unknown split 'letters'; valid splits"):
        datasets.split(Data(task1.setting(profile, "chosen", "text")).pool, "letters", 0)


def test_the_record_never_computes_and_names_what_it_misses(cache, monkeypatch, tmp_path):
    monkeypatch.setattr("redlib.paths.results", lambda profile: tmp_path / profile)
    monkeypatch.setattr("redlib.paths.ROOT", tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"no table 'task1' .full/task1.csv.; `python -m redlib run --profile full"
    ):
        table(config.load("record"), "task1")


def test_selection_changes_one_thing_at_a_time_and_reads_validation_rows_only(profile):
    shown = table(profile, "selection", say=lambda line: None)
    tried = shown[["layer", "pooling", "rank", "own"]].drop_duplicates()
    own = tried[tried["own"] == 1].iloc[0]
    assert (own["layer"], own["pooling"], own["rank"]) == (profile.chosen.layer, "mean", profile.chosen.rank)
    changed = (tried[["layer", "pooling", "rank"]] != own[["layer", "pooling", "rank"]]).sum(axis=1)
    assert sorted(changed) == [0, *([1] * (len(tried) - 1))]
    assert len(tried) == 1 + 1 + 1 + 1  # the profile's own, and one other depth, pooling and rank
    assert set(shown["part"]) == {"validation"}
    assert (shown["metric"] == "value_accuracy_below_own").sum() == len(tried) - 1
    s = task1.setting(profile, "chosen", "structure", seeds=1, methods=("red",))
    read = pd.read_parquet(methods.predictions_stage(s).run() / "predictions.parquet")
    read = read[read["part"] == "validation"]
    own = shown[(shown["own"] == 1) & (shown["seed"].astype(str) == "0") & (shown["metric"] == "value_accuracy")]
    assert own["value"].item() == pytest.approx((read["predicted_value"] == read["value"]).mean(), abs=1e-6)


def test_only_the_parts_that_the_methods_need_are_trained(profile):
    s = task1.setting(profile, "chosen", "structure", seeds=1, methods=("red",))
    assert set(methods.part_stages(s)) == {"base", "experts", "routers"}
    assert set(methods.load_parts(s, 0)) == {"base", "classifier", "experts", "router"}
