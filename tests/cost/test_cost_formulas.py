"""Costs of methods: closed forms against real modules, and the formulas of the source."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from redlib import cost
from redlib.cost import Sizes

sizes = st.builds(
    Sizes,
    d=st.integers(1, 40),
    C=st.integers(1, 30),
    K=st.integers(1, 7),
    r=st.integers(1, 20),
    hidden=st.integers(0, 9),
)

# ---- methods -----------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(sizes)
def test_closed_forms_are_what_the_real_modules_have_and_do(s):
    assume(s.C >= s.K)
    plain, fourier = cost.control_widths(s)
    assume(plain and fourier)
    made = cost.modules(s)
    for name in cost.NAMES:
        assert cost.method_cost(name, s) == cost.counted(name, s, made), name


@settings(max_examples=20)
@given(sizes)
def test_skipping_what_is_idle_never_costs_more_and_red_has_nothing_to_skip(s):
    for name in cost.NAMES:
        assert cost.skipping(name, s) <= cost.method_cost(name, s).flops, name
    assert cost.skipping("red", s) == cost.method_cost("red", s).flops


def test_the_cost_of_red_by_hand():
    s = Sizes(d=10, C=7, K=3, r=2, hidden=4)
    red = cost.method_cost("red", s)
    assert red.parameters == 3 * (10 * 2 + 2 * 10) + (10 * 7 + 7) + (10 * 4 + 4 + 4 * 3 + 3)
    assert red.flops == 2 * (3 * 40 + 70 + 40 + 12) + 2 * 3 * 10  # products, then the sum over experts


def test_the_controls_have_the_width_that_the_study_trains():
    s = Sizes(d=576, C=99, K=5, r=72)
    plain, fourier = cost.control_widths(s)
    red = cost.method_cost("red", s).parameters
    for name, width in {"mlp_full_data": plain + 0, "fourier_full_data": fourier}.items():
        assert width > 0
        assert abs(cost.method_cost(name, s).parameters - red) <= (s.d + 1 + s.C) / 2


@pytest.mark.parametrize("wrong", [{"d": 0}, {"C": 2.0}, {"K": True}, {"r": -1}, {"hidden": -1}])
def test_sizes_that_cannot_be_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} must be a whole number"):
        Sizes(**{"d": 4, "C": 4, "K": 2, "r": 1} | wrong)


def test_unknown_methods_formulas_and_backbones_are_refused_with_the_valid_names():
    with pytest.raises(ValueError, match="softmax_moe"):
        cost.method_cost("moe", Sizes(4, 4, 2, 1))
    with pytest.raises(ValueError, match=r"red/4\.10"):
        cost.leading("red", 4, 4, 2)
    with pytest.raises(ValueError, match=r"smollm2-135m, qwen3-0\.6b"):
        cost.configuration("gpt2")
    with pytest.raises(ValueError, match="3 classes cannot be divided among 5 experts"):
        cost.counted("red", Sizes(4, 3, 5, 1))


# ---- formulas ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 4096), st.integers(1, 5000), st.integers(1, 64))
def test_break_even_ranks_are_those_of_the_algebra(d, C, K):
    assert cost.break_even("red/4.10", d, C, K) == pytest.approx(d * C / (d + C))
    assert cost.break_even("red/4.4", d, C, K) == pytest.approx((K - 1) * C / (2 * K), abs=1e-9)
    assert cost.break_even("red/public", d, C, K) == pytest.approx((K - 1) * d * C / (K * (d + C)), abs=1e-9)


@given(
    st.integers(2, 2048),
    st.integers(2, 500),
    st.integers(2, 16),
    st.sampled_from(["red/4.10", "red/4.4", "red/public"]),
)
def test_red_is_smaller_than_the_mixture_exactly_below_the_break_even_rank(d, C, K, form):
    edge = cost.break_even(form, d, C, K)
    mixture = cost.leading("softmax_moe", d, C, K)
    below, above = max(edge * 0.99, 0), edge * 1.01
    assert cost.leading(form, d, C, K, below) < mixture < cost.leading(form, d, C, K, above)


def test_the_break_even_ranks_at_the_shape_of_the_source():
    assert cost.break_even("red/4.10", 1024, 5, 5) == pytest.approx(5, abs=0.1)
    assert cost.break_even("red/4.10", 1024, 99, 5) == pytest.approx(90, abs=0.5)
    assert cost.rank_for("red/4.4", 10, 1024, 99, 5) < 0, "its classifier alone is more than a tenth of the mixture"


@given(sizes)
def test_formulas_are_the_closed_forms_of_linear_routers_without_biases(s):
    linear = Sizes(s.d, s.C, s.K, s.r, hidden=0)
    biases = {"global_head": s.C, "uniform_average": s.K * s.C, "softmax_moe": s.K * s.C + s.K}
    for name, extra in biases.items():
        assert cost.method_cost(name, linear).parameters - extra == cost.leading(name, s.d, s.C, s.K)
    red = cost.method_cost("red", linear).parameters - s.C - s.K
    assert red == cost.leading("red/4.4", s.d, s.C, s.K, s.r)
    public = cost.method_cost("public_red", linear).parameters - s.C - s.K * (s.r + s.C) - s.K
    assert public == cost.leading("red/public", s.d, s.C, s.K, s.r)
