"""What is said of pools and splits: reports, the budget of texts, what cannot hold together, and the data card."""

from collections import Counter

import pandas as pd
import pytest

from redlib import datasets, paths
from redlib.expressions import LabelSpace
from redlib.phrasing import TASK1, WORDINGS

TWO_RANGES = LabelSpace(2, 30, (15,))


@pytest.fixture(scope="module")
def pool():
    return datasets.build("task1", 4_000, seed=0)


def test_the_report_counts_what_a_direct_count_finds(pool):
    parts = {by: datasets.split(pool, by, 1) for by in datasets.SPLITS}
    table = datasets.report(pool, parts).set_index(["split", "part", "group", "metric"])["value"]
    assert table.index.is_unique
    assert table["pool", "all", "all", "rows"] == 4_000
    assert table["pool", "all", "R1", "expressions"] == pool["expression"][pool["range"] == 0].nunique()
    assert table["pool", "all", "all", "wrong_labels"] == table["pool", "all", "all", "duplicate_texts"] == 0
    for by, series in parts.items():
        train, test = pool[series == "train"], pool[series == "test"]
        assert table[by, "test", "R3", "rows"] == 80
        assert table[by, "test", "all", "imbalance"] == 0
        assert table[by, "train & test", "all", "shared_texts"] == 0
        for metric, column in (("expressions", "expression"), ("structures", "structure"), ("templates", "template")):
            both = set(train[column]) & set(test[column])
            assert table[by, "train & test", "all", f"shared_{metric}"] == len(both)
            assert table[by, "train & test", "all", f"seen_{metric}"] == pytest.approx(test[column].isin(both).mean())
    assert table["structure", "train & test", "all", "shared_structures"] == 0
    assert table["phrasing", "train & test", "all", "shared_templates"] == 0
    assert table["text", "train & test", "all", "shared_structures"] > 0


def test_the_report_shows_duplicates_wrong_labels_and_imbalance(pool):
    broken = pool.copy()
    broken.loc[0, "value"] += 1
    broken.loc[1, "range"] = (broken.loc[1, "range"] + 1) % 5
    broken = pd.concat([broken, broken[5:8]], ignore_index=True)
    table = datasets.report(broken, {}).set_index(["group", "metric"])["value"]
    assert table["all", "wrong_labels"] == 2
    assert table["all", "duplicate_texts"] == 3
    assert table["all", "imbalance"] > 0
    with pytest.raises(ValueError, match="parts of split 'text' do not belong to this pool"):
        datasets.report(broken, {"text": datasets.split(pool, "text", 0)})


def test_the_budget_is_what_brute_force_counts():
    table = datasets.budget(80_000)
    ranges = table.drop(index="all")
    assert ranges["ordered_pairs"].tolist() == [153, 550, 878, 610, 210]
    sums = Counter((a + b - 1) // 20 for a in range(2, 51) for b in range(a, 51))
    assert ranges["unordered_pairs"].tolist() == [sums[k] for k in range(5)]
    totals = table.loc["all", ["ordered_pairs", "unordered_pairs", "deduplicated", "deduplicated_balanced"]]
    assert totals.tolist() == [2_401, 1_225, 2_401, 765]
    assert table.loc["R1", "texts_per_ordered_pair"] == pytest.approx(16_000 / 153)
    assert table.loc["R1", "macro_f1_ceiling"] == pytest.approx(17 / 99)
    assert ranges["rows_if_uniform"].sum() == pytest.approx(80_000)
    assert datasets.budget(400, (0, 20), TWO_RANGES).loc["R2", "rows"] == 200


def test_the_conflicts_say_what_cannot_hold_together():
    table = datasets.conflicts(80_000)
    assert table["holds"].tolist() == [False] * 5 + [True]
    assert table["available"].tolist()[:4] == [2_401, 765, 1_225, 5_098]
    assert datasets.conflicts(500)["holds"].tolist()[:3] == [True, True, True]


def test_the_data_card_states_the_computed_numbers():
    card = (paths.root() / "data" / "README.md").read_text()
    assert f"The {len(TASK1)} templates of `redlib.phrasing` put {len(WORDINGS)} operator wordings" in card
    for name, line in datasets.budget(80_000).drop(index="all").iterrows():
        cells = [
            name,
            *(f"{line[column]:,.0f}" for column in ("ordered_pairs", "unordered_pairs", "rows", "rows_if_uniform")),
            f"{line['texts_per_ordered_pair']:.1f}",
            f"{line['reachable_values']:.0f}/99",
        ]
        assert f"| {' | '.join(cells)} |" in card
