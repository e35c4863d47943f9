"""Intervals and tests against scipy, statsmodels and scikit-learn, and against cases worked out by hand."""

import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from redlib import statistics
from redlib.statistics import Resampler, cluster_mean, mcnemar, wilson


def clustered(rng, clusters=60, size=8, spread=0.3):
    """0/1 values of `clusters` clusters of `size` rows each, whose chances differ by cluster."""
    chance = np.clip(0.6 + spread * rng.normal(size=clusters), 0, 1)
    return (rng.random((clusters, size)) < chance[:, None]).ravel(), np.repeat(np.arange(clusters), size)


def test_wilson_is_the_score_interval_worked_out_by_hand():
    k, n, z = 8, 10, 1.959964
    p = k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert wilson(k, n) == pytest.approx((middle - half, middle + half), abs=1e-6)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_proportion_and_stays_in_its_bounds(case):
    k, n = case
    low, high = wilson(k, n)
    assert 0 <= low <= k / n <= high <= 1
    assert low < high


@pytest.mark.parametrize(("k", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(k, n):
    with pytest.raises(ValueError, match="0 <= k <= n"):
        wilson(k, n)


def test_single_row_clusters_agree_with_scipys_bootstrap():
    values = np.random.default_rng(1).random(400) < 0.7
    ours = cluster_mean(values, np.arange(400), resamples=4000)
    theirs = scipy.stats.bootstrap(
        (values.astype(float),), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.006)


def test_the_width_agrees_with_cluster_robust_standard_errors():
    values, clusters = clustered(np.random.default_rng(3), clusters=150)
    fit = sm.OLS(values.astype(float), np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    ours = cluster_mean(values, clusters, resamples=4000)
    assert (ours.high - ours.low) / (2 * 1.96) == pytest.approx(fit.bse[0], rel=0.07)
    rows = cluster_mean(values, np.arange(len(values)), resamples=4000)
    assert ours.high - ours.low > 1.3 * (rows.high - rows.low)


def paired(a, b, clusters, seeds=None, strata=None, resamples=1000, seed=0):
    """Mean of a minus mean of b on the same rows, by the same resamples."""
    seeds = np.zeros(len(a), int) if seeds is None else seeds
    both = Resampler(seeds, clusters, strata, resamples, seed).ratio(np.column_stack([a, b]), np.ones((len(a), 2)))
    return (both[0] - both[1]).overall()


def test_a_paired_difference_agrees_with_scipys_paired_bootstrap():
    rng = np.random.default_rng(4)
    a = rng.random(300) < 0.8
    b = np.where(rng.random(300) < 0.9, a, rng.random(300) < 0.5)
    ours = paired(a, b, np.arange(300), resamples=4000)
    theirs = scipy.stats.bootstrap(
        (a.astype(float), b.astype(float)),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        paired=True,
        n_resamples=4000,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.006)
    alone = cluster_mean(a, np.arange(300)), cluster_mean(b, np.arange(300), seed=9)
    assert ours.high - ours.low < 0.8 * np.hypot(*(e.high - e.low for e in alone))


def test_variance_between_seeds_widens_the_interval():
    rng = np.random.default_rng(6)
    seeds = np.repeat(np.arange(5), 400)
    clusters = np.tile(np.arange(400), 5)
    chance = np.array([0.3, 0.5, 0.6, 0.7, 0.9])[seeds]
    values = rng.random(2000) < chance
    between = cluster_mean(values, clusters, seeds)
    within = cluster_mean(values, clusters + 1000 * seeds)
    assert between.high - between.low > 3 * (within.high - within.low)
    spread = np.array([values[seeds == s].mean() for s in range(5)]).std() / np.sqrt(5)
    assert (between.high - between.low) / (2 * 1.96) == pytest.approx(spread, rel=0.15)


def test_mean_over_seeds_weights_every_seed_the_same():
    values, seeds = np.array([1, 1, 1, 1, 0, 0]), np.array([0, 0, 0, 0, 1, 1])
    assert cluster_mean(values, np.arange(6), seeds).value == 0.5


def test_a_perfect_method_has_wilsons_interval_over_clusters():
    clusters = np.arange(200) // 10
    perfect = cluster_mean(np.ones(200), clusters)
    assert (perfect.value, perfect.low, perfect.high) == (1.0, *wilson(20, 20))
    hopeless = cluster_mean(np.zeros(200), clusters)
    assert (hopeless.value, hopeless.low, hopeless.high) == (0.0, *wilson(0, 20))


def test_two_perfect_methods_differ_by_zero_within_what_the_clusters_allow():
    same = paired(np.ones(40), np.ones(40), np.arange(40) // 2)
    assert (same.value, same.low, same.high) == (0, -wilson(0, 20)[1], wilson(0, 20)[1])
    apart = paired(np.ones(40), np.zeros(40), np.arange(40) // 2)
    assert apart.value == apart.high == 1.0
    assert apart.low == 1 - wilson(0, 20)[1]


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values, clusters = clustered(np.random.default_rng(7))
    assert cluster_mean(values, clusters, seed=3) == cluster_mean(values, clusters, seed=3)
    assert cluster_mean(values, clusters, seed=3).low != cluster_mean(values, clusters, seed=4).low


def test_the_order_of_rows_changes_nothing():
    values, clusters = clustered(np.random.default_rng(8))
    order = np.random.default_rng(9).permutation(len(values))
    assert cluster_mean(values[order], clusters[order]) == cluster_mean(values, clusters)


def test_strata_keep_their_share_in_every_resample():
    strata = np.repeat([0, 1], [3, 300])
    values = strata == 0
    fixed = Resampler(np.zeros(303), np.arange(303), strata).ratio(values, np.ones(303))[0]
    assert np.ptp(fixed.draws) == 0
    loose = Resampler(np.zeros(303), np.arange(303)).ratio(values, np.ones(303))[0]
    assert np.ptp(loose.draws) > 0


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_macro_f1_agrees_with_scikit_learn_over_the_labels_present(seed, labels):
    rng = np.random.default_rng(seed)
    truth, predicted = rng.integers(labels, size=80), rng.integers(labels + 2, size=80)
    mask = rng.random(80) < 0.8
    statistic = Resampler(np.zeros(80), np.arange(80), resamples=5).macro_f1(truth, predicted, mask)
    expected = f1_score(truth[mask], predicted[mask], labels=np.unique(truth[mask]), average="macro", zero_division=0)
    assert statistic.value[0] == pytest.approx(expected)


def test_resampled_macro_f1_is_scikit_learns_on_the_drawn_rows():
    rng = np.random.default_rng(10)
    truth, predicted, clusters = rng.integers(3, size=90), rng.integers(3, size=90), np.arange(90) // 3
    resampler = Resampler(np.zeros(90), clusters, resamples=40)
    statistic = resampler.macro_f1(truth, predicted)
    drawn = [np.repeat(np.arange(90), counts.astype(int)[clusters]) for counts in resampler._blocks[0].weights]
    direct = np.array([f1_score(truth[rows], predicted[rows], average="macro") for rows in drawn])
    centred = direct - direct.mean() + f1_score(truth, predicted, average="macro")
    np.testing.assert_allclose(statistic.draws[0], centred, atol=1e-6)


def test_a_seed_without_rows_is_left_out_of_the_mean():
    seeds = np.repeat([0, 1], 20)
    right = np.arange(40) % 2 == 0
    statistic = Resampler(seeds, np.arange(40)).ratio(right, seeds == 0)[0]
    assert np.isnan(statistic.value[1])
    assert statistic.of_seed(1).n == 0
    assert statistic.overall().value == 0.5
    assert statistic.overall().n == 20


def test_unpaired_difference_adds_the_variances():
    rng = np.random.default_rng(11)
    a, b = (
        Resampler(np.zeros(500), np.arange(500), resamples=4000, seed=s).ratio(rng.random(500) < p, np.ones(500))[0]
        for s, p in ((1, 0.8), (2, 0.5))
    )
    gap = statistics.unpaired_difference(a, b)
    widths = [e.high - e.low for e in (a.overall(), b.overall())]
    assert gap.value == pytest.approx(a.value[0] - b.value[0])
    assert gap.high - gap.low == pytest.approx(np.hypot(*widths), rel=0.08)


def test_mcnemar_is_the_exact_binomial_test_on_few_discordant_rows():
    a = np.array([1] * 9 + [0] * 1 + [1] * 10, bool)
    b = np.array([0] * 9 + [1] * 1 + [1] * 10, bool)
    test = mcnemar(a, b)
    assert (test.only_a, test.only_b, test.n) == (9, 1, 20)
    assert test.p == pytest.approx(scipy.stats.binomtest(9, 10, 0.5).pvalue)


def test_mcnemar_is_chi_squared_with_correction_on_many():
    a, b = np.repeat([True, False], [60, 40]), np.repeat([False, True], [60, 40])
    assert mcnemar(a, b).p == pytest.approx(scipy.stats.chi2.sf((abs(60 - 40) - 1) ** 2 / 100, 1))


def test_mcnemar_without_a_discordant_row_finds_nothing():
    assert mcnemar(np.ones(5), np.ones(5)).p == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Resampler([0, 0], ["a"]), "equally long"),
        (lambda: Resampler([], []), "equally long"),
        (lambda: Resampler([0, 0], ["a", "a"], [0, 1]), "cluster 'a' lies in more than one stratum"),
        (lambda: cluster_mean([1.0, np.nan], [0, 1]), "NaN"),
        (lambda: Resampler([0, 0], [0, 1]).ratio([1], [1]), "each of 2 rows"),
        (lambda: mcnemar([True], [True, False]), "equally long"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
