"""The Fourier readout, the bases of `red_plus`, and its stages and tables at smoke size."""

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_modules import PASSPORT
from torch import nn

from redlib import config, figures, models, modules, results, study
from redlib.expressions import LabelSpace
from redlib.models import FourierBank, FourierReadout, LightBase, LinearBank, MLPBank, NetworkBase, ResidualExperts
from redlib.study import methods, red_plus, table
from redlib.study.data import open_backbone
from redlib.study.red_plus import parts as red_plus_parts

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"structure": 2},
    "task1.source_seeds": {},
    "task2.definitions.operations.rows": 250,
    "task2.definitions.operations.seeds": {"structure": 1},
    "task2.definitions.operations.source_seeds": {},
    "red_plus.task1.seeds": {"structure": 2},
    "red_plus.task2.seeds": {"structure": 1, "phrasing": 1},
}
quick = settings(deadline=None, max_examples=25)
PERIODS = st.lists(st.integers(2, 250), min_size=1, max_size=6)


def same_residues(labels: LabelSpace, periods) -> tuple[int, int] | None:
    """The first value that shares all its remainders with the lowest one."""
    for value in range(labels.lo + 1, labels.hi + 1):
        if all((value - labels.lo) % period == 0 for period in periods):
            return labels.lo, value
    return None


# ---- the readout -------------------------------------------------------------------------------------------------


@quick
@given(lo=st.integers(0, 20), span=st.integers(2, 150), periods=PERIODS)
def test_periods_either_separate_every_pair_of_values_or_are_refused_with_the_pair(lo, span, periods):
    labels = LabelSpace(lo, lo + span, ())
    pair = same_residues(labels, periods)
    if pair:
        with pytest.raises(ValueError, match=f"give the values {pair[0]} and {pair[1]} the same code"):
            FourierReadout(1, labels, periods)
    else:
        book = FourierReadout(1, labels, periods).codebook[0].double()
        assert torch.pdist(book).min() > 1e-4


@pytest.mark.parametrize("periods", [(), (10, 0), (-5, 200)])
def test_periods_are_above_zero_and_there_is_one(periods):
    with pytest.raises(ValueError, match="needs one or more periods above zero"):
        FourierReadout(1, LabelSpace(), periods)


@quick
@given(seed=st.integers(0, 1000), periods=PERIODS.filter(lambda p: not same_residues(LabelSpace(), p)))
def test_the_readout_is_its_formula(seed, periods):
    labels, draw = LabelSpace(), torch.Generator().manual_seed(seed)
    readout = FourierReadout(2, labels, periods)
    readout.gain.data = torch.randn(readout.gain.shape, generator=draw)
    x, P = torch.randn(2, 3, 2 * len(periods), generator=draw), len(periods)
    member, row, v = 1, 2, labels.lo + seed % labels.C
    said = (x[member, row] * readout.gain[member, 0]).tolist()
    wanted = sum(
        said[p] * math.cos(2 * math.pi * v / period) + said[P + p] * math.sin(2 * math.pi * v / period)
        for p, period in enumerate(periods)
    )
    assert readout(x)[member, row, v - labels.lo].item() == pytest.approx(wanted, abs=1e-4)


@quick
@given(lo=st.integers(0, 20), span=st.integers(2, 120))
def test_a_perfect_code_has_its_largest_logit_at_its_value(lo, span):
    readout = FourierReadout(1, LabelSpace(lo, lo + span, ()))
    logits = readout(readout.codebook)[0]
    assert torch.equal(logits.argmax(-1), torch.arange(span + 1))
    assert (logits.diagonal()[:, None] - logits).fill_diagonal_(math.inf).min() > 1e-4


@quick
@given(value=st.integers(2, 60), by=st.integers(1, 40), times=st.floats(0.1, 10))
def test_logits_move_with_the_value_and_grow_with_the_code(value, by, times):
    labels = LabelSpace()
    readout = FourierReadout(1, labels)
    code = {v: readout.codebook[:, [v - labels.lo]] for v in (value, value + by)}
    logits = {v: readout(x)[0, 0] for v, x in code.items()}
    torch.testing.assert_close(logits[value + by][by:], logits[value][: labels.C - by], atol=1e-4, rtol=0)
    torch.testing.assert_close(readout(times * code[value])[0, 0], times * logits[value], atol=1e-3, rtol=1e-4)


# ---- the bases ---------------------------------------------------------------------------------------------------

D, WIDTH, LABELS = 12, 8, LabelSpace()


def light(seeds, positions=16, ending="mean"):
    base = LightBase(seeds, D, WIDTH, 2, 2, positions, ending).eval()
    if ending == "turns":
        base.turn.weight.data.normal_(0, 2, generator=torch.Generator().manual_seed(2))
    return base


def tokens(rows=5, longest=7):
    states = torch.randn(rows, longest, D, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([longest, *range(2, rows + 1)])
    mask = torch.arange(longest) < lengths[:, None]
    return states * mask[..., None], mask


@pytest.mark.parametrize("ending", models.ENDINGS)
def test_what_light_layers_say_of_a_text_does_not_depend_on_the_batch_it_is_in(ending):
    states, mask = tokens()
    base = light([3], ending=ending)
    together = base(states, mask)
    for row, n in enumerate(mask.sum(1).tolist()):
        alone = base(states[row : row + 1, :n], mask[row : row + 1, :n])
        torch.testing.assert_close(together[:, row], alone[:, 0], atol=1e-5, rtol=1e-5)


def test_tokens_turn_points_on_circles_one_after_the_other():
    states, mask = tokens()
    base = light([3], ending="turns")
    with torch.no_grad():
        h = base(states, mask)[0]
        *_, said = base._streams(states, mask)
        turns = said[0] @ base.turn.weight[0] / 16
    points = torch.ones(len(mask), WIDTH // 2, dtype=torch.complex64)
    for row, turn in zip(mask.nonzero()[:, 0].tolist(), turns, strict=True):
        points[row] *= torch.polar(torch.ones_like(turn), turn)
    assert points.angle().abs().max() > 1
    torch.testing.assert_close(torch.complex(*h.chunk(2, -1)), points, atol=1e-5, rtol=0)


def test_points_that_nothing_has_turned_are_where_they_began_and_can_be_moved():
    base = LightBase([3], D, WIDTH, 1, 2, 16, "turns")
    h = base(*tokens())
    assert torch.equal(h[0, :, : WIDTH // 2], torch.ones(5, WIDTH // 2))
    assert torch.equal(h[0, :, WIDTH // 2 :], torch.zeros(5, WIDTH // 2))
    h.sum().backward()
    assert base.turn.weight.grad.abs().max() > 0


def test_the_matrices_of_light_layers_are_their_hidden_products():
    base = LightBase([3], D, WIDTH, 2, 2, 16, "turns")
    shapes = [tuple(p.shape[1:]) for p in base.matrices()]
    layer = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    assert shapes == [(D, WIDTH), *layer, *layer]


def test_light_layers_know_the_order_of_tokens():
    states, mask = tokens(1)
    assert not torch.allclose(light([3])(states, mask), light([3])(states.flip(1), mask), atol=1e-3)


@pytest.mark.parametrize("make", [light, lambda seeds: NetworkBase(seeds, D, WIDTH)], ids=["tokens", "pooled"])
def test_a_member_of_a_base_is_what_it_is_alone(make):
    x = tokens() if make is light else (torch.randn(5, D),)
    many = make([1, 2, 3])
    assert many(*x).shape == (3, 5, WIDTH)
    torch.testing.assert_close(many(*x)[1], make([2])(*x)[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(models.take(many, [2])(*x)[0], many(*x)[2], atol=1e-5, rtol=1e-5)


def test_narrow_products_round_what_light_layers_say_and_leave_gradients_wide():
    base, inputs = light([3]), tokens()
    with torch.autocast("cpu", torch.bfloat16):
        narrow = base(*inputs)
    narrow.square().mean().backward()
    wide = base(*inputs).detach()
    assert {narrow.dtype, *(p.grad.dtype for p in base.parameters())} == {torch.float32}
    assert 0 < (narrow - wide).abs().max() < 0.05 * wide.abs().max()


def test_a_light_base_refuses_long_texts_and_heads_that_do_not_divide_its_width():
    with pytest.raises(ValueError, match="a text of 7 tokens is longer than the 4 positions of these layers"):
        light([1], positions=4)(*tokens())
    with pytest.raises(ValueError, match="3 heads do not divide a width of 8"):
        LightBase([1], D, WIDTH, 1, 3, 16)
    with pytest.raises(ValueError, match="unknown ending of light layers 'sum'; valid endings: mean, turns"):
        LightBase([1], D, WIDTH, 1, 2, 16, "sum")
    with pytest.raises(ValueError, match="a width of 7 is odd"):
        LightBase([1], D, 7, 1, 1, 16, "turns")


def parts_with(base, experts):
    classifier = FourierBank([5], WIDTH, 0, LABELS)
    return {"base": base, "classifier": classifier, "experts": experts, "router": MLPBank([9], WIDTH, 4, LABELS.K)}


def test_a_linear_adapter_is_the_product_of_its_two_maps_and_is_saved_as_one(tmp_path):
    experts, h = ResidualExperts([1, 2], 6, 3, "linear"), torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
    experts.up.weight.data.normal_(generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        torch.testing.assert_close(experts(h), h @ (experts.down.weight @ experts.up.weight))
        modules.save(tmp_path / "a.safetensors", {"experts": experts}, PASSPORT)
        again = modules.load(tmp_path / "a.safetensors")[0]["experts"]
        assert again.form == "linear"
        assert torch.equal(again(h), experts(h))
    with pytest.raises(ValueError, match="unknown form of an adapter 'relu'; valid forms: gelu, linear"):
        ResidualExperts([1], 6, 3, "relu")


@pytest.mark.parametrize("name", ["red_plus", "red_plus_top1", "red_plus_uniform", "red_plus_value_router"])
@pytest.mark.parametrize("form", ["tokens", "pooled"])
def test_zero_experts_are_the_base_bit_for_bit(name, form):
    base, x = (light([3]), tokens()) if form == "tokens" else (NetworkBase([3], D, WIDTH), torch.randn(5, D))
    parts = parts_with(base, ResidualExperts(range(LABELS.K), WIDTH, 4))
    alone, red = (models.assemble(n, LABELS, parts) for n in ("red_plus_base", name))
    assert torch.equal(alone(x).logits, red(x).logits)
    assert red(x).alpha.shape == (5, LABELS.K)


def test_the_value_router_weighs_experts_by_the_range_probabilities_of_the_base():
    parts, x = parts_with(NetworkBase([3], D, WIDTH), ResidualExperts(range(LABELS.K), WIDTH, 4)), torch.randn(5, D)
    base, red = (models.assemble(n, LABELS, parts) for n in ("red_plus_base", "red_plus_value_router"))
    assert torch.equal(red(x).alpha, models.range_probabilities(base(x).logits, LABELS))


# ---- stages ------------------------------------------------------------------------------------------------------


@pytest.fixture
def profile(cache):
    return config.load("smoke", SMALL)


@pytest.fixture
def setting(profile, request):
    return red_plus.setting(profile, getattr(request, "param", "task1"), "structure")


both = pytest.mark.parametrize("setting", red_plus.TASKS, indirect=True)


def tensors(part):
    return {name: value.clone() for name, value in part.state_dict().items()}


def equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@both
def test_experts_trained_alone_and_in_any_order_are_those_of_the_stage_and_leave_the_base_as_it_is(setting):
    stages = red_plus.part_stages(setting, 0)
    together = modules.load(stages["experts"].run(lambda line: None) / "experts.safetensors")[0]["experts"]
    base = modules.load(stages["base"].folder / "base.safetensors")[0]
    before = {name: tensors(part) for name, part in base.items()}
    data = red_plus_parts.HiddenData(setting, stages["base"].folder)
    for k in (4, 1):
        alone, _ = red_plus_parts.train_expert(data, base["classifier"], 0, k)
        assert equal(tensors(models.take(together, [k])), tensors(alone))
        assert alone.up.weight.abs().max() > 0
    assert all(equal(before[name], tensors(part)) for name, part in base.items())


TRAINED_ELSEWHERE = """
import json, sys
from pathlib import Path
import torch
given, task, k, threads, out = json.loads(sys.argv[1])
torch.set_num_threads(threads)
from redlib import config, modules
from redlib.study import red_plus
from redlib.study.red_plus import parts
s = red_plus.setting(config.load("smoke", given), task, "structure")
base = red_plus.base_stage(s, 0)
assert base.done, "the base is the one of the other process"
classifier = modules.load(base.folder / "base.safetensors")[0]["classifier"]
expert, _ = parts.train_expert(parts.HiddenData(s, base.folder), classifier, 0, k)
modules.save(Path(out), {"expert": expert}, s.passport(0))
"""


@both
def test_an_expert_trained_in_another_process_is_that_of_the_stage_bit_for_bit(setting, tmp_path):
    stages, k, file = red_plus.part_stages(setting, 0), 3, tmp_path / "expert.safetensors"
    together = modules.load(stages["experts"].run(lambda line: None) / "experts.safetensors")[0]["experts"]
    asked = json.dumps([SMALL, setting.task, k, torch.get_num_threads(), str(file)])
    done = subprocess.run([sys.executable, "-c", TRAINED_ELSEWHERE, asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    elsewhere = tensors(modules.load(file)[0]["expert"])
    assert equal(tensors(models.take(together, [k])), elsewhere)
    assert not equal(tensors(models.take(together, [k - 1])), elsewhere)


def test_a_base_made_again_is_the_same_bit_for_bit(setting):
    stage = red_plus.base_stage(setting, 0)
    first = modules.load(stage.run(lambda line: None) / "base.safetensors")[0]
    again = modules.load(stage.run(lambda line: None, force=True) / "base.safetensors")[0]
    assert all(equal(tensors(first[name]), tensors(again[name])) for name in first)


@pytest.mark.parametrize("task", red_plus.TASKS)
def test_trunk_and_base_are_bit_for_bit_what_they_were_when_every_part_is_trained(own_cache, task):
    profile = config.load("smoke", SMALL)
    trunk, s = open_backbone(profile.backbone), red_plus.setting(profile, task, "structure")
    before = tensors(trunk.model)
    stages = red_plus.part_stages(s, 0)
    base = stages["base"].run(lambda line: None)
    files = {name: (base / name).read_bytes() for name in ("base.safetensors", "h.npy")}
    assert equal(before, tensors(trunk.model)), "after the base"
    for name in ("experts", "router"):
        stages[name].run(lambda line: None)
    assert equal(before, tensors(trunk.model))
    assert files == {name: (base / name).read_bytes() for name in files}


@both
def test_an_expert_sees_its_own_rows_and_the_asked_share_of_others(setting):
    data = red_plus_parts.Data(setting)
    train = data.rows["train"][0]
    for k in range(setting.K):
        rows = red_plus_parts.rows_of_expert(data, train, k, 0)
        own = data.range.numpy()[rows] == k
        assert len(np.unique(rows)) == len(rows)
        assert set(data.of_range(train, k)) <= set(rows) <= set(train)
        assert (~own).mean() == pytest.approx(setting.recipe.foreign_share, abs=0.02)


@both
def test_stored_h_is_what_the_saved_base_says_of_the_texts(profile, setting):
    method = red_plus.trained(profile, setting.task)
    h = np.load(red_plus.base_stage(setting, 0).folder / "h.npy")
    data = red_plus_parts.Data(setting)
    if setting.task == "task1":
        x = data.x[:20]
    else:
        x = red_plus_parts.feature_set(setting.features).states().batch(range(20))
    torch.testing.assert_close(method.hidden(x), torch.from_numpy(h[:20]), atol=1e-5, rtol=1e-4)


def test_a_classifier_of_another_label_space_and_a_boundary_outside_the_trunk_are_refused(profile, setting):
    file = red_plus.base_stage(setting, 0).run(lambda line: None) / "base.safetensors"
    with pytest.raises(ValueError, match="labels"):
        modules.load(file, labels=LabelSpace(2, 200, (50, 100)))
    with pytest.raises(ValueError, match="has no hidden state 9; valid layers: 0 to 4"):
        red_plus.base_stage(red_plus.setting(profile, "task1", "structure", layer=9), 0).run(lambda line: None)


@pytest.mark.parametrize(
    ("task", "overrides", "said"),
    [
        ("task3", {}, "there is no red_plus of 'task3'; valid tasks: task1, task2"),
        ("task1", {"red_plus.task1.tuned_layers": 2}, "keeps its trunk frozen; tuned_layers must be 0, got 2"),
        ("task2", {"red_plus.task2.pooling": "last"}, "pooling must be mean, got last"),
        ("task1", {"red_plus.task1.ending": "turns"}, "without light layers red_plus of task1 has nothing for `turns`"),
        ("task1", {"red_plus.task1.base.optimiser": "muon"}, "has nothing for `turns` or Muon; set layers"),
    ],
)
def test_a_form_that_cannot_be_is_refused(task, overrides, said):
    with pytest.raises(ValueError, match=said):
        red_plus.form(config.load("smoke", overrides), task)


def test_a_seed_that_a_split_does_not_have_is_refused(profile):
    with pytest.raises(ValueError, match="has 2 seeds on the structure split, numbered from 0; got 2"):
        red_plus.trained(profile, "task1", seed=2)


def test_other_settings_of_the_experts_leave_the_key_of_the_base_as_it_is(profile):
    own, other = (red_plus.setting(profile, "task1", "structure", **c) for c in ({}, {"rank": 3}))
    assert red_plus.base_stage(own, 0).key == red_plus.base_stage(other, 0).key
    assert red_plus.experts_stage(own, 0).key != red_plus.experts_stage(other, 0).key
    moved = red_plus.setting(profile, "task1", "structure", periods=(2, 5, 10, 50, 100))
    assert red_plus.base_stage(own, 0).key != red_plus.base_stage(moved, 0).key


def test_the_learning_rate_rises_to_its_whole_and_falls_to_nothing():
    done = np.linspace(0, 1, 101)
    rate = np.array([red_plus_parts.one_cycle(d) for d in done])
    assert rate[0] == pytest.approx(0.04)
    assert rate.max() == rate[30] == pytest.approx(1)
    assert rate[-1] < 1e-6
    assert (np.diff(rate[:31]) > 0).all()
    assert (np.diff(rate[30:]) < 0).all()


# ---- tables ------------------------------------------------------------------------------------------------------


def test_the_tables_hold_base_whole_and_controls_of_the_same_rows_and_add_up(profile):
    found = table(profile, "red_plus", say=lambda line: None)
    results.validate(found)
    for task, splits in (("task1", {"structure"}), ("task2", {"structure", "phrasing"})):
        mine = found[found["task"] == task]
        assert set(mine["split"]) == splits
        here = mine[(mine["split"] == "structure") & (mine["group"] == "all") & (mine["seed"] == "all")]
        value = here[here["metric"] == "value_accuracy"].set_index("method")
        assert set(value.index) == {*models.PLUS, "red", "softmax_moe"} | {
            "global_head_full_data",
            "mlp_full_data",
            "fourier_full_data",
        }
        assert value["n"].nunique() == 1
        added = here[here["metric"] == "value_accuracy_below_red_plus"].set_index("method")["value"]
        torch.testing.assert_close(
            torch.tensor(added["red_plus_base"]),
            torch.tensor(value.loc["red_plus", "value"] - value.loc["red_plus_base", "value"]),
            atol=1e-5,
            rtol=0,
        )
    assert set(found[(found["task"] == "task2") & (found["split"] == "phrasing")]["method"]) == set(models.PLUS)


def test_accuracies_of_the_table_are_those_of_the_predictions(profile):
    s = red_plus.setting(profile, "task1", "structure")
    said = pd.read_parquet(red_plus.predictions_stage(s).run(lambda line: None) / "predictions.parquet")
    said = said[(said["part"] == "test") & (said["method"] == "red_plus") & (said["seed"] == 1)]
    found = table(profile, "red_plus", say=lambda line: None)
    row = results.select(found, task="task1", method="red_plus", seed="1", group="all", metric="range_accuracy")
    assert row["value"].item() == pytest.approx((said["range"] == said["predicted_range"]).mean(), abs=1e-5)


def test_the_curves_have_every_part_and_epoch(profile):
    curves = table(profile, "red_plus_curves", say=lambda line: None)
    assert set(curves["method"]) == {"red_plus base", "red_plus expert", "red_plus router"}
    experts = curves[(curves["method"] == "red_plus expert") & (curves["task"] == "task1")]
    assert set(experts["epoch"]) == {1, 2}
    assert set(experts["n"]) == {2 * 5}


def test_other_chapters_do_not_know_of_these_methods(profile):
    assert not set(models.PLUS) & set(models.METHODS)
    assert set(methods.predictions_stage(study.task1.setting(profile, "chosen", "structure")).config["methods"]) == set(
        models.METHODS
    )


def test_a_readout_of_other_periods_is_another_part_on_disk(setting):
    part = modules.load(red_plus.base_stage(setting, 0).run(lambda line: None) / "base.safetensors")[0]["classifier"]
    assert isinstance(part, nn.Module)
    assert part.shape["periods"] == list(setting.recipe.periods)
    assert isinstance(part.net.last, LinearBank)
    assert part.net.first is None


# ---- figures -----------------------------------------------------------------------------------------------------


def test_a_line_a_method_and_a_mark_a_split_are_drawn_with_names(profile):
    found = table(profile, "red_plus", say=lambda line: None)
    fig = figures.draw_red_plus(found, profile="smoke", note=figures.NO_EVIDENCE)
    (first, *_), panels = fig.axes, fig.axes
    assert len(panels) == 4
    assert {label.get_text() for label in first.get_yticklabels()} == {
        figures.style.look(name).label for name in found["method"]
    }
    assert {text.get_text() for text in fig.legends[0].get_texts()} == {
        figures.style.SPLITS[split].label for split in ("structure", "phrasing")
    }


def test_the_onset_has_a_line_a_split_through_every_epoch(profile):
    curves = table(profile, "red_plus_curves", say=lambda line: None)
    first, second = figures.draw_onset(curves, profile="smoke").axes
    assert (len(first.lines), len(second.lines)) == (1, 2)
    assert list(first.lines[0].get_xdata()) == [1, 2]
