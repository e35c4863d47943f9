"""The Fourier readout and its periods, and that of tens and units."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import models
from redlib.expressions import LabelSpace
from redlib.models import DigitBank, FourierBank, FourierReadout

quick = settings(max_examples=25)
PERIODS = st.lists(st.integers(2, 250), min_size=1, max_size=6)
LABELS = LabelSpace()


def same_residues(labels: LabelSpace, periods) -> tuple[int, int] | None:
    """The first value that shares all its remainders with the lowest one."""
    for value in range(labels.lo + 1, labels.hi + 1):
        if all((value - labels.lo) % period == 0 for period in periods):
            return labels.lo, value
    return None


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


# ---- other periods and other values ------------------------------------------------------------------------------


@quick
@given(lo=st.integers(0, 30), span=st.integers(1, 120), seed=st.integers(0, 99))
def test_a_logit_of_digits_is_that_of_the_tens_and_that_of_the_units(lo, span, seed):
    bank, x = DigitBank([seed], 4, 0, LabelSpace(lo, lo + span, ())), torch.randn(1, 3, 4)
    said, logits = bank.net(x)[0], bank(x)[0]
    tens = (lo + span) // 10 + 1
    for value in (lo, lo + span):
        wanted = said[:, value // 10] + said[:, tens + value % 10]
        torch.testing.assert_close(logits[:, value - lo], wanted)


@quick
@given(hi=st.integers(101, 201), seed=st.integers(0, 99))
def test_asked_for_more_values_a_readout_says_the_same_of_those_it_knew(hi, seed):
    bank, x = FourierBank([seed], 4, 0, LABELS), torch.randn(1, 3, 4)
    wider = models.with_labels(bank, LabelSpace(LABELS.lo, hi, ()))
    torch.testing.assert_close(wider(x)[..., : LABELS.C], bank(x))
    assert wider(x).shape[-1] == hi - LABELS.lo + 1


def test_values_further_apart_than_the_longest_period_are_refused_with_the_pair():
    with pytest.raises(ValueError, match="give the values 2 and 202 the same code"):
        models.with_labels(FourierBank([1], 4, 0, LABELS), LabelSpace(2, 202, ()))


# ---- what every period adds --------------------------------------------------------------------------------------


@quick
@given(periods=st.lists(st.integers(3, 200), min_size=1, max_size=4), seed=st.integers(0, 999))
def test_the_maps_of_all_periods_add_up_to_the_bank(periods, seed):
    labels = LabelSpace(0, 40, (20,))
    bank = FourierBank([seed, seed + 1], 6, 0, labels, (101, *periods))
    bank.readout.gain.data.normal_(1, 0.5, generator=torch.Generator().manual_seed(seed))
    h = torch.randn(3, 6, generator=torch.Generator().manual_seed(seed))
    weight, bias = bank.by_period()
    assert weight.shape == (2, 1 + len(periods), 6, labels.C)
    each = torch.einsum("bd,spdc->spbc", h, weight) + bias[:, :, None]
    torch.testing.assert_close(each.sum(1), bank(h), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(h @ bank.weight + bias.sum(1)[:, None], bank(h), atol=1e-4, rtol=1e-4)


def test_a_bank_with_a_hidden_layer_is_no_sum_by_period():
    with pytest.raises(ValueError, match="with a hidden layer is no sum of linear maps by period"):
        FourierBank([0], 6, 4, LABELS).by_period()
