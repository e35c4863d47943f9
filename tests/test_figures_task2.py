"""The figures of Task 2 from made-up tables: what they show, with one split or two, one definition or three."""

import numpy as np
import pandas as pd
import pytest

from redlib import claims, figures
from redlib.figures import style, task2

METHODS = ("red", "softmax_moe", "global_head", "uniform_average", "red_uniform", "fourier_full_data")
KINDS = ("ops=1", "ops=2", "ops>1", *task2.PATTERNS)
RANGES = ("R1", "R2", "R3", "R4", "R5")


def rows(variant: str, splits=("text", "structure"), methods=METHODS, groups=("all", *RANGES, *KINDS)) -> pd.DataFrame:
    made = [
        {
            "variant": variant,
            "split": split,
            "method": method,
            "group": group,
            "metric": metric,
            "n": 90 + 9 * len(split),
        }
        for split in splits
        for method in methods
        for group in groups
        for metric in ("value_accuracy", "range_accuracy", "macro_f1", "range_macro_f1")
    ]
    frame = pd.DataFrame(made).assign(task="task2", part="test", seed="all")
    value = np.random.default_rng(len(frame)).uniform(0.1, 0.9, len(frame))
    return frame.assign(value=value, low=value - 0.05, high=value + 0.05)


def routers(variant: str, splits=("text", "structure")) -> pd.DataFrame:
    frames = [
        rows(variant, splits, ("red",), ("all",)).assign(part=part).query("metric == 'value_accuracy'")
        for part in (*style.PARTS, "all")
    ]
    both = [pd.concat(frames).assign(metric=metric) for metric in ("router_accuracy", "router_macro_f1")]
    return pd.concat(both)


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    two = [rows("operations/chosen"), rows("operands/chosen"), routers("operations/chosen"), routers("operands/chosen")]
    return pd.concat([*two, rows("single_heavy/chosen", ("text",)), routers("single_heavy/chosen", ("text",))])


@pytest.fixture(scope="module")
def transfer() -> pd.DataFrame:
    arms = [rows(f"operations/chosen{arm}", methods=(method,)) for arm, method in task2.ARMS]
    return pd.concat(arms, ignore_index=True)


DRAWN = {
    "kind": lambda scores, transfer, **about: figures.draw_accuracy_by_kind(scores, **about),
    "one split": lambda scores, transfer, **about: figures.draw_accuracy_by_kind(
        scores, **about, variant="single_heavy/chosen", metric="range_accuracy"
    ),
    "definitions": lambda scores, transfer, **about: figures.draw_definitions(scores, **about),
    "router": lambda scores, transfer, **about: figures.draw_router_by_part(claims.beside(scores, ("4.7.3",)), **about),
    "reported": lambda scores, transfer, **about: figures.draw_reported_by_definition(
        claims.beside(scores, ("4.7.1", "4.7.2")), **about
    ),
    "transfer": lambda scores, transfer, **about: figures.draw_transfer(transfer, **about),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_of_task2_says_what_it_shows_and_stays_on_its_page(name, scores, transfer):
    about = {"profile": "laptop", "backbone": "tiny backbone", "note": figures.NO_EVIDENCE}
    fig = DRAWN[name](scores, transfer, **about)
    said = "\n".join(text.get_text() for text in fig.texts)
    for words in ("profile laptop", "tiny backbone", "split text", "95 % intervals", figures.NO_EVIDENCE):
        assert words in said.replace("\n", " ") or words in said
    for legend in fig.legends:
        box = legend.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= fig.bbox.x1
    assert all(ax.get_xlabel() for ax in fig.axes if ax.get_subplotspec().is_last_row())


def test_the_same_rows_in_another_order_are_the_same_figure(scores, transfer):
    first = figures.draw_transfer(transfer, "laptop")._repr_png_()
    assert figures.draw_transfer(transfer.sample(frac=1, random_state=1), "laptop")._repr_png_() == first


def test_kinds_are_drawn_in_order_with_their_rows(scores):
    fig = figures.draw_accuracy_by_kind(scores, "laptop")
    titles = [ax.get_title().split("\n") for ax in fig.axes]
    assert [title[0] for title in titles] == ["1 operation", "2 operations", *task2.PATTERNS.values()]
    assert {title[1] for title in titles} == {"n = 126 / 171"}, "text, structure"
    assert {ax.get_title().split("\n")[1] for ax in DRAWN["one split"](scores, None, profile="laptop").axes} == {
        "n = 126"
    }


def test_axes_of_value_accuracy_end_where_the_rows_do_and_those_of_ranges_at_one(scores, transfer):
    rare = scores.assign(**{name: scores[name] / 10 for name in ("value", "low", "high")})
    for frame in (scores, rare):
        drawn = frame[(frame["variant"] == "operations/chosen") & frame["group"].isin(KINDS)]
        drawn = drawn[(drawn["metric"] == "value_accuracy") & (drawn["part"] == "test") & (drawn["group"] != "ops>1")]
        end = max(drawn["high"].max(), 0.1)
        for ax in figures.draw_accuracy_by_kind(frame, "laptop").axes:
            assert ax.get_xlim() == pytest.approx((-0.03 * end, 1.03 * end))
        ranges = figures.draw_accuracy_by_kind(frame, "laptop", metric="range_accuracy")
        assert ranges.axes[0].get_xlim() == pytest.approx((-0.03, 1.03))
    both = figures.draw_transfer(transfer.assign(high=transfer["high"] / 10, value=transfer["value"] / 10), "laptop")
    assert both.axes[0].get_xlim()[1] < 0.12
    assert both.axes[-1].get_xlim()[1] == pytest.approx(1.03)


def test_a_definition_without_a_split_is_said_to_be_untrained(scores):
    fig = figures.draw_definitions(scores, "laptop")
    assert [text.get_text() for text in fig.axes[2].texts] == ["n = 171", "not trained", "n = 171"]
    one = figures.draw_definitions(rows("operations/chosen"), "laptop")
    assert [tick.get_text() for tick in one.axes[-1].get_xticklabels()] == ["operations"]


def test_figures_of_task2_name_what_is_missing(scores, transfer):
    with pytest.raises(LookupError, match="no row with variant=operands/source"):
        figures.draw_accuracy_by_kind(scores, "laptop", variant="operands/source")
    with pytest.raises(LookupError, match="no row with variant=operations/chosen/experts=task1,router=task2"):
        figures.draw_transfer(transfer[~transfer["variant"].str.endswith("router=task2")], "laptop")
