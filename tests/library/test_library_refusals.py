"""What does not belong into a library is refused in one sentence, and a label space that has grown."""

import pytest
import torch
from libraries import PARTS, expert, library, logits
from passports import PASSPORT
from test_models import LABELS, D

from redlib.models import LabelSpace, LinearBank, ResidualExperts
from redlib.modules import Library, columns


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda own: own.add("R1", expert(1)), ValueError, "an expert 'R1' is there already; experts: R1, R2, R3"),
        (lambda own: own.add("R.4", expert(1)), ValueError, "'R.4' is no name for an expert; valid: a letter"),
        (lambda own: own.remove("R4"), LookupError, "no expert 'R4'; experts: R1, R2, R3"),
        (lambda own: own.replace("r1", expert(1)), LookupError, "no expert 'r1'; experts: R1, R2, R3"),
        (lambda own: own.rename("R1", "R2"), ValueError, "an expert 'R2' is there already"),
        (lambda own: own.permute(["R1", "R2"]), ValueError, "names each of them once: R1, R2, R3; got R1, R2"),
        (lambda own: own.subset(["R1", "R4"]), LookupError, "no expert 'R4'"),
        (lambda own: own.subset(["R1", "R1"]), ValueError, "a subset names an expert once; got R1, R1 of R1, R2, R3"),
        (lambda own: own.disable("all"), LookupError, "no expert 'all'"),
        (lambda own: own.enable("all"), LookupError, "no expert 'all'"),
        (lambda own: own.split("R1", {}), ValueError, "splitting 'R1' needs experts"),
        (lambda own: own.split("R1", {"R2": expert(1)}), ValueError, "an expert 'R2' is there already"),
        (lambda own: own.add("new", ResidualExperts([0], D + 1, 3)), ValueError, f"over h of {D} numbers"),
        (lambda own: own.add("new", PARTS["experts"]), ValueError, "of one member"),
        (lambda own: own.expert("R9"), LookupError, "no expert 'R9'"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(change, error, said):
    own = library()
    before = logits(own)
    with pytest.raises(error, match=said):
        change(own)
    assert own.names == LABELS.names
    assert torch.equal(logits(own), before)


def test_an_expert_of_another_form_is_refused_with_the_form_that_the_others_have():
    own = library()
    with pytest.raises(ValueError, match="experts here are adapters of form 'gelu', got one of form 'linear'"):
        own.add("straight", ResidualExperts([1], D, 3, "linear"))
    assert own.names == LABELS.names


def test_names_that_do_not_fit_the_experts_are_refused():
    with pytest.raises(ValueError, match=r"2 names \(a, b\) do not fit the experts"):
        Library.of(LABELS, PARTS, ["a", "b"])


def test_a_column_of_another_router_is_refused():
    with pytest.raises(ValueError, match=r"a column of shape \(1, 9, 1\) does not fit 6 hidden units"):
        library().add("new", expert(1), column=columns.column(torch.zeros(9), 0.0))


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"layer": 3}, r"at layer 3, pooled by mean, but this RED reads .* at layer 2, .*: another layer"),
        ({"pooling": "last"}, "another pooling"),
        ({"weights_id": "x" * 64}, "another backbone"),
        (
            {"labels": LabelSpace(2, 14, (4, 8))},
            r"values 2..14, but this RED answers 2..13; widen its label space first",
        ),
    ],
)
def test_an_expert_whose_passport_does_not_agree_is_refused(about, said):
    own, made = library(), expert(1)
    own.add("fits", made, PASSPORT | {"seed": 7})
    for change in (own.add, own.replace):
        with pytest.raises(ValueError, match=said):
            change("fits" if change == own.replace else "new", made, PASSPORT | about)


def test_a_wider_label_space_needs_a_classifier_that_has_grown_and_kept_its_columns():
    wide, own = LabelSpace(2, 16, (4, 8, 13)), library()
    grown = LinearBank([9], D, wide.C)
    with pytest.raises(ValueError, match=r"2..16 needs 15 outputs, the first 12 those of the old one"):
        own.widen(wide, grown)
    for mine, old in zip(grown.parameters(), own.classifier.parameters(), strict=True):
        mine.data[..., : LABELS.C] = old.data
    before = logits(own)
    own.widen(wide, grown)
    assert torch.allclose(logits(own)[:, : LABELS.C], before, rtol=1e-5, atol=1e-5)
    own.add("R4", expert(3), PASSPORT | {"labels": wide})
    with pytest.raises(ValueError, match=r"do not extend LabelSpace"):
        own.widen(LabelSpace(2, 20, (5,)), grown)
