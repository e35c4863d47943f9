"""Where the arithmetic is: places in texts, states at tokens, closed-form probes, digits and kinds of errors."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import backbone, config, datasets, evaluation, features, figures, models, phrasing, probes, results
from redlib.expressions import Expression, LabelSpace
from redlib.features import LAST, POOLED
from redlib.phrasing import FIRST, OPERATOR, SECOND, TASK1, TASK2, render
from redlib.statistics import Resampler
from redlib.study import arithmetic_tables, table

ONE_OPERATION = [*TASK1, *(template for template in TASK2 if template.wording.least == 1)]
SPACE = LabelSpace()
quick = settings(max_examples=25)


@pytest.fixture(scope="module")
def tiny():
    return backbone.load("tiny")


# ---- places and states -------------------------------------------------------------------------------------------


def test_every_template_has_its_numbers_and_one_operator_word():
    assert len(ONE_OPERATION) > 100
    for template in ONE_OPERATION:
        words = set()
        for operator in ("+", "-") if template in TASK2 else ("+",):
            text = render(Expression((12, 5), (operator,)), template)
            spots = phrasing.places(text)
            assert {text[slice(*spots[name])] for name in (FIRST, SECOND)} == {"12", "5"}, text
            assert spots[FIRST][1] < spots[SECOND][0]
            words.add(text[slice(*spots[OPERATOR])])
        assert len(words) == (2 if template in TASK2 else 1), "the word is what differs between the two operators"


@quick
@given(template=st.sampled_from(ONE_OPERATION), a=st.integers(2, 50), b=st.integers(2, 50))
def test_located_tokens_decode_back_to_the_digits_of_the_operands(tiny, template, a, b):
    text = render(Expression((a, b), ("+",)), template)
    ids = tiny.encode([text])[0]
    found = features.token_spans(tiny, [text], [phrasing.places(text)])
    said = [tiny.tokenizer.decode(ids[slice(*found[name][0])]).strip() for name in (FIRST, SECOND)]
    assert sorted(map(int, said)) == sorted([a, b])
    assert phrasing.parse(text).value == sum(map(int, said))


@pytest.mark.parametrize("text", ["12", "Add 1 to 2, then add 3.", "What is 12 and 5?", "Add 12 plus 5."])
def test_a_text_of_another_kind_has_no_places(text):
    with pytest.raises(ValueError, match="is no text of one operation: it has"):
        phrasing.places(text)


def test_states_at_tokens_are_those_of_a_plain_forward(tiny):
    pool = datasets.build("task1", 50, 0)
    texts = pool["text"].tolist()
    spans = features.token_spans(tiny, texts, [phrasing.places(text) for text in texts])
    stops = {name: span[:, 1] for name, span in spans.items()}
    found = features.sites(tiny, texts, stops, (0, 2, -1))
    assert set(found) == {(layer, site) for layer in (0, 2, -1) for site in (POOLED, LAST, *stops)}
    for row in (0, 17, 49):
        ids = torch.tensor([tiny.encode([texts[row]])[0]])
        with torch.no_grad():
            plain = tiny.model(ids, output_hidden_states=True).hidden_states
        for layer in (0, 2, -1):
            whole = plain[layer][0].numpy()  # (T, d)
            expected = {POOLED: whole.mean(0), LAST: whole[-1]} | {n: whole[stop[row] - 1] for n, stop in stops.items()}
            for site, state in expected.items():
                np.testing.assert_allclose(found[layer, site][row], state, rtol=1e-3, atol=1e-4)


def test_a_stretch_or_token_that_is_not_there_is_named(tiny):
    with pytest.raises(ValueError, match=r"no token of '12 plus 5' holds its operator at characters 40 to 44"):
        features.token_spans(tiny, ["12 plus 5"], [{OPERATOR: (40, 44)}])
    with pytest.raises(ValueError, match=r"first_operand: '12 plus 5' has .* tokens, and token 90 was asked for"):
        features.sites(tiny, ["12 plus 5"], {FIRST: np.array([90])}, (0,))


# ---- probes in closed form ---------------------------------------------------------------------------------------


def r2(true, said, rows, train):
    """Of one seed, every row a structure of its own."""
    columns = np.column_stack([((true[rows] - said) ** 2).sum(1), ((true[rows] - true[train].mean(0)) ** 2).sum(1)])
    names = np.arange(len(rows)).astype(str)
    error, total = Resampler(np.zeros(len(rows), int), names, resamples=200).ratio(columns, np.ones(columns.shape))
    return arithmetic_tables.explained(error, total).overall()


def test_a_fourier_component_that_is_there_is_explained_and_noise_is_not():
    generator = np.random.default_rng(0)
    values = generator.integers(2, 101, 1200)
    wave = probes.circle(values, 10)
    np.testing.assert_allclose((wave**2).sum(1), 1)
    noise = generator.standard_normal((1200, 20)).astype(np.float32)
    x = np.concatenate([noise[:, :10], wave @ generator.standard_normal((2, 6))], axis=1).astype(np.float32)
    train, choose, scored = np.split(np.arange(1200), [800, 900])
    for features_of, wanted in ((x, 1.0), (noise, 0.0)):
        said = probes.closed(features_of, {}, {"wave": wave}, train, choose, scored)["wave"]
        found = r2(wave, said, scored, train)
        assert found.value == pytest.approx(wanted, abs=0.02)
        assert found.low <= found.value <= found.high
        assert found.n == 300


def test_a_linear_probe_reads_classes_that_lie_in_a_row():
    generator = np.random.default_rng(1)
    y = generator.integers(0, 6, 900)
    line = y[:, None] + 0.1 * generator.standard_normal((900, 1))
    x = np.concatenate([line, generator.standard_normal((900, 4))], axis=1).astype(np.float32)
    train, choose, scored = np.split(np.arange(900), [600, 700])
    coin = generator.integers(0, 2, 900)
    said = probes.closed(x, {"class": y, "coin": coin}, {}, train, choose, scored)
    assert (said["class"] == y[scored]).mean() > 0.95
    assert (said["coin"] == coin[scored]).mean() < 0.65


def test_the_majority_is_learnt_on_training_rows_by_group():
    y = np.array([0, 0, 1, 2, 2, 2, 1, 1])
    group = np.array([0, 0, 0, 1, 1, 1, 0, 1])
    train, scored = np.arange(6), np.array([6, 7])
    assert probes.majority(y, train, scored, group).tolist() == [0, 2]
    assert probes.majority(y, train, scored).tolist() == [2, 2]


def test_a_network_reads_what_a_linear_map_cannot():
    generator = np.random.default_rng(2)
    x = generator.standard_normal((1500, 6)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    parts = np.split(np.arange(1500), [1100, 1300])
    loop = config.Training(lr=0.01, batch=64, max_epochs=30, patience=30, monitor="accuracy")
    said = probes.network({"here": x, "noise": x[::-1].copy()}, {"sign": y}, *([p] for p in parts), 32, loop)
    hits = {point: (said[point, "sign"][0] == y[parts[2]]).mean() for point in ("here", "noise")}
    linear = probes.closed(x, {"sign": y}, {}, *parts)["sign"]
    assert hits["here"] > 0.85 > 0.65 > max(hits["noise"], (linear == y[parts[2]]).mean())


# ---- digits and errors -------------------------------------------------------------------------------------------


@quick
@given(st.integers(0, 999))
def test_digits_are_those_that_are_written(value):
    written = f"{value:03d}"
    assert evaluation.digit(value, "units_digit") == int(written[2])
    assert evaluation.digit([value], "tens_digit").tolist() == [int(written[1])]
    assert evaluation.digit(value, "parity") == int(written[2]) % 2


def test_an_unknown_digit_is_named():
    with pytest.raises(ValueError, match="unknown digit 'hundreds'; valid digits: units_digit, tens_digit, parity"):
        evaluation.digit(5, "hundreds")


def predictions(said: np.ndarray, true: np.ndarray, method: str = "red") -> pd.DataFrame:
    of = np.asarray(SPACE.range_index)
    frame = pd.DataFrame({"row": range(len(true)), "structure": [f"s{v}" for v in true], "value": true})
    frame = frame.assign(range=of[true - SPACE.lo], split="structure", recipe="chosen", part="test", method=method)
    ranges = of[said - SPACE.lo]
    return frame.assign(seed=0, predicted_value=said, predicted_range=ranges, confidence=1.0, router_range=ranges)


@quick
@given(st.lists(st.tuples(st.integers(2, 100), st.integers(2, 100)), min_size=2, max_size=40))
def test_kinds_of_errors_partition_them_and_intervals_hold_their_number(pairs):
    said, true = np.array(pairs).T
    frame = evaluation.error_kinds(predictions(said, true), SPACE, resamples=50).set_index("metric")
    wrong = int((said != true).sum())
    measured = frame[~frame.index.str.contains("_above_|minus")]
    assert (measured["low"] <= measured["value"] + 1e-6).all()
    assert (measured["value"] <= measured["high"] + 1e-6).all()
    assert frame.loc["units_digit_accuracy", "n"] == len(pairs)
    if not wrong:
        assert "off_by_1" not in frame.index
        return
    kinds = frame.loc[list(evaluation.ERROR_KINDS)]
    assert kinds["value"].sum() == pytest.approx(1)
    assert frame.loc[[f"{kind}_expected" for kind in evaluation.ERROR_KINDS], "value"].sum() == pytest.approx(1)
    assert set(kinds["n"]) == {wrong}
    shares = evaluation.signed_errors(predictions(said, true), SPACE, reach=98)
    assert shares["value"].sum() == pytest.approx(1)
    off = shares.loc[shares["error"].abs() == 10, "value"].sum()
    assert kinds.loc["off_by_10", "value"] == pytest.approx(off)


def test_kinds_of_errors_are_those_counted_by_hand():
    true = np.array([30, 31, 50, 77, 90, 12])
    said = np.array([40, 30, 45, 79, 90, 19])  # +10, -1, -5, +2, right, +7
    value = evaluation.error_kinds(predictions(said, true), SPACE, resamples=20).set_index("metric")["value"]
    for kind, share in {"off_by_1": 0.2, "off_by_5": 0.2, "off_by_10": 0.2, "off_by_other": 0.4}.items():
        assert value[kind] == pytest.approx(share)
    assert value["right_units_digit"] == pytest.approx(0.2)  # 40
    assert value["right_tens_digit"] == pytest.approx(0.6)  # 30, 79 and 19
    assert value["wrong_units_minus_tens"] == pytest.approx(-0.4)
    assert value["right_parity"] == pytest.approx(0.4)  # 40 and 79
    assert value["tens_digit_accuracy"] == pytest.approx(4 / 6)


def test_what_chance_would_do_is_counted_over_the_other_values_of_the_predicted_range():
    value = evaluation.error_kinds(predictions(np.array([35, 30]), np.array([30, 50])), SPACE, resamples=20)
    value = value.set_index("metric")["value"]
    # 30 against the other 19 of 21..40: 29 and 31 are off by one; 50 against the 20 of 21..40: only 40 by ten
    assert value["off_by_1_expected"] == pytest.approx((2 / 19 + 0) / 2)
    assert value["off_by_10_expected"] == pytest.approx((1 / 19 + 1 / 20) / 2)


# ---- tables and figures ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        profile = config.load("smoke", {"task1.rows": 250, "task1.seeds": {"structure": 1}})
        yield {name: table(profile, name, say=lambda line: None) for name in arithmetic_tables.TABLES}


def test_probes_cover_every_site_depth_and_target(tables):
    frame = tables["arithmetic_probes"]
    a = config.load("smoke").arithmetic
    linear = results.select(frame, metric="accuracy", method="linear")
    for variant, targets in ((arithmetic_tables.ADDITIONS, 6), (arithmetic_tables.OPERATORS, 7)):
        rows = results.select(linear, variant=variant)
        assert len(rows) == len(a.layers) * 5 * targets
        assert ("operator" in set(rows["target"])) == (variant == arithmetic_tables.OPERATORS)
    network = results.select(frame, metric="accuracy", method="mlp")
    assert set(network["site"]) == set(a.network_sites)
    assert set(network["target"]) == set(arithmetic_tables.COMPUTED)
    accuracy = results.select(frame, metric="accuracy")
    assert accuracy["value"].between(accuracy["low"], accuracy["high"]).all()
    known = results.pick(accuracy, method="majority_of_range", target="range", variant=arithmetic_tables.ADDITIONS)
    assert known["value"] == 1


def test_differences_of_probes_are_those_of_their_accuracies(tables):
    rows = results.select(tables["arithmetic_probes"], variant=arithmetic_tables.ADDITIONS, site=POOLED, layer=2)
    rows = results.select(rows, method="linear").set_index(["metric", "target"])["value"]
    between = rows["accuracy", "units_digit"] - rows["accuracy", "tens_digit"]
    assert rows["units_minus_tens", "units_digit"] == pytest.approx(between, abs=1e-5)


def test_rows_that_train_choose_and_are_scored_share_no_structure():
    pool = datasets.build("task2", 500, 0, steps="single_heavy")
    texts = arithmetic_tables.Texts.of(pool, 2)
    assert (texts.pool["operations"] == 1).all()
    for seed in range(2):
        parts = [set(texts.pool["structure"].iloc[rows[seed]]) for rows in (texts.train, texts.choose, texts.scored)]
        assert all(parts)
        assert sum(map(len, parts)) == len(set.union(*parts))
    value = texts.pool["value"].to_numpy()
    low, high = np.sort(texts.operands, axis=1).T
    np.testing.assert_array_equal(value, np.where(texts.targets[OPERATOR] == 1, high - low, low + high))


def test_the_periods_of_the_probes_are_among_those_of_the_fourier_readout():
    assert set(config.load("laptop").arithmetic.periods) <= set(models.PERIODS)


DRAWN = {
    "probe_targets": (figures.draw_probe_targets, "arithmetic_probes"),
    "probe_sites": (figures.draw_probe_sites, "arithmetic_probes"),
    "fourier_map": (figures.draw_fourier_map, "arithmetic_fourier"),
    "error_kinds": (figures.draw_error_kinds, "arithmetic_errors"),
    "signed_errors": (figures.draw_signed_errors, "arithmetic_signed_errors"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_names_its_rows_and_what_it_misses(name, tables):
    draw, source = DRAWN[name]
    fig = draw(tables[source], "smoke", "tiny backbone", figures.NO_EVIDENCE)
    said = "\n".join(text.get_text() for text in fig.texts)
    for words in ("profile smoke", "split structure", "tiny backbone", figures.NO_EVIDENCE):
        assert words in said
    assert all(text.get_window_extent().x1 <= fig.bbox.x1 for text in fig.texts)
    with pytest.raises(LookupError, match=r"no row with .*; present:"):
        draw(tables[source].assign(metric="other"), "smoke")
