"""Savings of sparse experts: the note's examples, what they leave out, what is refused, and the widget."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redlib import figures, sparse
from redlib.widgets import SavingsWidget

NAMES = ("num_experts", "active_experts", "input_dim", "output_dim")
layers = st.tuples(st.integers(1, 500), st.integers(1, 500), st.integers(1, 4096), st.integers(1, 4096)).filter(
    lambda layer: layer[1] <= layer[0]
)


@pytest.mark.parametrize(
    ("example", "saved", "counted"),
    [(sparse.EXAMPLES[0], 99.8, 99.6), (sparse.EXAMPLES[1], 90.0, 88.4), (sparse.EXAMPLES[2], 87.5, 87.3)],
)
def test_the_examples_of_the_note_with_and_without_the_router(example, saved, counted):
    assert sparse.sparse_savings(*example) == saved
    assert sparse.sparse_savings_with_router(*example) == counted


@given(layers)
def test_the_saving_is_one_minus_the_active_share_whatever_the_dimensions(layer):
    E, k, _, d_out = layer
    saved = sparse.sparse_savings(*layer)
    assert abs(saved - 100 * (1 - k / E)) <= 0.05 + 1e-9
    assert saved == sparse.sparse_savings(E, k, 1, 1) == round(saved, 1)
    honest = sparse.sparse_savings_with_router(*layer)
    assert abs(honest - 100 * (1 - k / E - 1 / d_out)) <= 0.05 + 1e-9
    assert honest <= saved


def test_all_experts_active_save_nothing_and_a_router_then_costs():
    assert sparse.sparse_savings(5, 5, 1024, 99) == 0.0
    assert sparse.sparse_savings_with_router(5, 5, 1024, 50) == -2.0


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, 0, -1])
def test_what_is_no_positive_whole_number_is_refused_by_name(place, wrong):
    given = [4, 2, 64, 64]
    given[place] = wrong
    for call in (sparse.sparse_savings, sparse.sparse_savings_with_router, sparse.view):
        with pytest.raises(ValueError, match=NAMES[place]):
            call(*given)


def test_more_active_experts_than_experts_are_refused_and_numpy_integers_are_not():
    with pytest.raises(ValueError, match="active_experts must be between 1 and num_experts=4, got 5"):
        sparse.sparse_savings(4, 5, 64, 64)
    assert sparse.sparse_savings(np.int64(10), np.int32(1), 64, 64) == 90.0


def test_the_view_counts_operations_by_hand():
    rows = sparse.view(16, 2, 256, 512).set_index("comparison")
    one, router = 256 * 512, 256 * 16
    assert list(rows["operations"]) == [2 * one, 2 * one + router, 2 * one + router, 2 * one + router, 16 * one]
    assert list(rows["against"]) == [16 * one, 16 * one, 16 * one + router, one, 16 * one]
    assert rows["saved"].iloc[[0, 1, 4]].tolist() == [87.5, 87.3, 0.0]
    assert rows["saved"].iloc[3] == round(100 * (1 - (2 * one + router) / one), 1) < 0


@given(layers)
def test_against_one_plain_layer_sparse_experts_never_save(layer):
    plain = sparse.view(*layer).set_index("comparison")["saved"]
    assert plain[plain.index.str.startswith("one plain layer")].item() <= 0


# ---- the widget and its twin -------------------------------------------------------------------------------------


def test_the_widget_shows_the_view_of_its_sliders():
    widget = SavingsWidget(10, 1, 64, 64)
    for number in ("90.0", "88.4", "4,096", "40,960"):
        assert number in widget.table.value
    widget.sliders["active_experts"].value = 5
    assert "50.0" in widget.table.value
    assert "90.0" not in widget.table.value


def test_the_widget_says_what_is_not_possible_and_recovers():
    widget = SavingsWidget(10, 1, 64, 64)
    widget.sliders["active_experts"].value = 11
    assert "active_experts must be between 1 and num_experts=10, got 11" in widget.table.value
    assert "<table" not in widget.table.value
    widget.sliders["num_experts"].value = 22
    assert "50.0" in widget.table.value


def test_the_widget_answers_from_another_thread():
    widget = SavingsWidget(16, 2, 256, 512)
    other = threading.Thread(target=lambda: setattr(widget.sliders["num_experts"], "value", 1000))
    other.start()
    other.join()
    assert "99.8" in widget.table.value


def test_the_figure_has_a_bar_for_every_comparison_and_layer():
    frame = sparse.view(16, 2, 256, 512).assign(layer="one")
    fig = figures.draw_savings(frame)
    assert len(fig.axes[0].patches) == len(frame)
    assert {text.get_text() for text in fig.axes[0].texts} == {f"{value:.1f}" for value in frame["saved"]}


def test_every_bar_is_as_long_as_its_saving_and_its_number_stands_at_its_end():
    frame = sparse.view(1000, 2, 512, 512).assign(layer="one")
    ax = figures.draw_savings(frame).axes[0]
    assert [bar.get_width() for bar in ax.patches] == frame["saved"].tolist()
    low, high = ax.get_xlim()
    assert low < frame["saved"].min() < frame["saved"].max() < high
    places = {text.get_text(): (text.xy[0], text.get_horizontalalignment()) for text in ax.texts}
    assert places["-295.3"] == (-295.3, "right")
    assert places["99.8"] == (99.8, "left")
