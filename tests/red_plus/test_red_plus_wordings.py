"""Words that a base was not trained on: what it misses in training, what it is asked, and that no test row is."""

import numpy as np
import pytest
import torch
from small_plus import WORTH, made

from redlib import config, datasets, figures, modules, results
from redlib.study import red_plus
from redlib.study.data import read_pool
from redlib.study.red_plus import parts, wordings

SMALL = WORTH | {
    "red_plus.wordings.groups": [4, 5],
    "red_plus.wordings.reads": [[3, "mean"]],
    "red_plus.wordings.noises": [0.0],
}


@pytest.fixture(scope="module")
def profile(cache):
    return config.load("smoke", SMALL)


def test_every_pair_of_what_is_read_and_noise_is_a_candidate(profile):
    form = red_plus.form(profile, "task1")
    assert (form.layer, form.pooling, form.noise) == (2, "mean_two_depths", 0.5)
    assert wordings.candidates(profile) == {
        "as it is": {},
        "noise=0.0": {"noise": 0.0},
        "layer=3, pooling=mean": {"layer": 3, "pooling": "mean"},
        "layer=3, pooling=mean, noise=0.0": {"layer": 3, "pooling": "mean", "noise": 0.0},
    }


def test_neither_training_nor_validation_has_a_row_in_the_words_left_out(profile, monkeypatch, tmp_path):
    seen, fit = [], parts.training.fit
    monkeypatch.setattr(parts.training, "fit", lambda head, rows, *rest: seen.append(rows) or fit(head, rows, *rest))
    s = wordings.setting(profile, {})
    parts.make_base(s, 0, tmp_path, tmp_path / "checkpoint", without=4)
    wording = read_pool(s.pool.run())["group"].to_numpy()
    (rows,) = seen
    for of_part in (rows.train[0], rows.validation[0]):
        assert len(of_part)
        assert not np.isin(wording[of_part], [4, datasets.held_out(0)]).any()


def test_shares_are_those_of_the_stored_h_on_rows_that_are_no_test_rows(profile):
    found = results.select(made(profile, "red_plus_wordings"), metric="value_accuracy")
    s = wordings.setting(profile, {"noise": 0.0})
    pool, right = read_pool(s.pool.run()), {}
    for group in (4, 5):
        folder = wordings.base_stage(s, group).folder
        classifier = modules.load(folder / "base.safetensors")[0]["classifier"]
        h = torch.from_numpy(np.load(folder / "h.npy")[(pool["group"] == group).to_numpy()])
        with torch.no_grad():
            said = classifier(h[None])[0].argmax(-1).numpy() + s.labels.lo
        right[group] = (said == pool.loc[pool["group"] == group, "value"]).to_numpy()
        row = results.pick(found, changed="noise=0.0", group=f"wording={group}")
        assert (row["value"], row["n"]) == (pytest.approx(right[group].mean(), abs=1e-6), len(right[group]))
    whole = results.pick(found, changed="noise=0.0", group="all", seed="all")
    assert whole["value"] == pytest.approx(np.concatenate(list(right.values())).mean(), abs=1e-6)
    test = datasets.split(pool, "phrasing", 0).to_numpy() == "test"
    assert not test[pool["group"].isin([4, 5])].any()


def test_a_change_is_what_it_differs_from_the_form_as_it_is(profile):
    found = results.select(made(profile, "red_plus_wordings"), seed="all")
    for group in ("all", "seen"):
        level = results.select(found, group=group, metric="value_accuracy").set_index("changed")["value"]
        change = results.select(found, group=group, metric="value_accuracy_change").set_index("changed")["value"]
        assert "as it is" not in change
        for name, value in change.items():
            assert value == pytest.approx(level[name] - level["as it is"], abs=2e-6)


@pytest.mark.parametrize(("group", "why"), [(2, "are those of the test"), (10, "are not there")])
def test_words_of_the_test_and_words_that_are_not_there_are_refused(profile, group, why):
    with pytest.raises(ValueError, match=rf"wordings {group} {why}; valid red_plus.wordings.groups: 0, 1, 3, .*, 9$"):
        wordings.base_stage(wordings.setting(profile, {}), group)


def test_the_figure_has_a_line_a_form_and_a_dot_a_group_of_words(profile):
    found = made(profile, "red_plus_wordings")
    ax = figures.draw_plus_wordings(found, "smoke", "tiny").axes[0]
    assert {label.get_text() for label in ax.get_yticklabels()} == {
        "as it is",
        "noise 0.0",
        "hidden state 3, one depth",
        "hidden state 3, one depth, noise 0.0",
    }
    assert len(ax.lines[0].get_xdata()) == 4 * 2
