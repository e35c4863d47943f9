"""The widget with the claims: what it shows is what fits."""

import threading
from itertools import pairwise

import pytest
import traitlets

from redlib.widgets import ClaimTable
from redlib.widgets.claim_table import SHOWN, as_html, fitting, shown


@pytest.fixture(scope="module")
def checked(without_tables):
    return without_tables.reset_index(drop=True)


def test_the_widget_shows_the_claims_that_fit_and_how_many(checked):
    widget = ClaimTable(checked)
    assert widget.said == f"{len(checked)} of {len(checked)} claims"
    widget.kind, widget.document = "contradiction", "sparse"
    few = checked[(checked["kind"] == "contradiction") & (checked["document"] == "sparse")]
    assert widget.said == f"{len(few)} of {len(checked)} claims"
    assert widget.table == as_html(few)
    widget.words = "LATENCIES factor"
    assert widget.said.startswith("1 of ")
    assert "first-token latencies are similar" in widget.table
    widget.words = "nowhere"
    assert widget.said.startswith("0 of ")


def test_a_choice_that_no_claim_has_is_refused_by_name(checked):
    widget = ClaimTable(checked)
    with pytest.raises(traitlets.TraitError, match="no claim has 'proven'; valid: all, "):
        widget.verdict = "proven"
    assert widget.verdict == "all"


def test_filters_narrow_and_the_static_twin_has_every_claim_with_its_text_escaped(checked):
    sizes = [len(fitting(checked, words=words)) for words in ("", "red", "red mixture", "red mixture oscillates")]
    assert all(a >= b for a, b in pairwise(sizes))
    assert sizes[-1] >= 1
    assert list(shown(checked).columns) == list(SHOWN.values())
    assert len(shown(checked)) == len(checked)
    assert "&lt;0.2 %" in as_html(checked)


def test_the_widget_answers_from_another_thread(checked):
    widget = ClaimTable(checked)
    thread = threading.Thread(target=lambda: setattr(widget, "kind", "number"))
    thread.start()
    thread.join()
    assert widget.said.startswith(f"{(checked['kind'] == 'number').sum()} of ")
