"""The prefix forest: every text keeps its tokens, its order and its ancestors, whatever the rows."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import packing

TEXTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=40)
quick = settings(max_examples=60)


def _paths(forest):
    return [forest.paths[a:b] for a, b in zip(forest.offsets[:-1], forest.offsets[1:], strict=True)]


@quick
@given(TEXTS, st.booleans())
def test_sort_gives_distinct_texts_and_the_place_of_every_text(ids, tree):
    distinct, places = packing.sort(ids, tree)
    assert len(set(distinct)) == len(distinct)
    assert [list(distinct[place]) for place in places] == ids
    key = (lambda text: text) if tree else len
    assert [key(text) for text in distinct] == sorted(key(text) for text in distinct)


@quick
@given(TEXTS, st.integers(1, 30))
def test_every_text_is_read_along_its_path(ids, width):
    distinct, _ = packing.sort(ids)
    forest = packing.pack(distinct, width)
    for text, path in zip(distinct, _paths(forest), strict=True):
        assert forest.tokens[path].tolist() == list(text)
        assert forest.depths[path].tolist() == list(range(len(text)))


@quick
@given(TEXTS)
def test_one_wide_row_holds_every_shared_beginning_once(ids):
    distinct, _ = packing.sort(ids)
    forest = packing.pack(distinct, 10_000)
    assert len(forest.tokens) == len({text[: i + 1] for text in distinct for i in range(len(text))})


@quick
@given(TEXTS, st.integers(1, 30))
def test_rows_are_no_wider_than_asked_unless_a_single_text_is(ids, width):
    distinct, _ = packing.sort(ids)
    forest = packing.pack(distinct, width)
    for start, stop, first, last in zip(
        forest.rows[:-1], forest.rows[1:], forest.texts[:-1], forest.texts[1:], strict=True
    ):
        assert stop - start <= width or last - first == 1


@quick
@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.booleans())
def test_batches_cover_everything_and_a_node_sees_its_ancestors_only(ids, width, nodes, tree):
    distinct, _ = packing.sort(ids, tree)
    forest = packing.pack(distinct, width) if tree else packing.plain(distinct)
    ancestors = {int(path[i]): set(path[: i + 1].tolist()) for path in _paths(forest) for i in range(len(path))}
    seen_nodes = seen_texts = 0
    for first, stop in forest.cut(nodes):
        batch = forest.batch(first, stop)
        assert (batch.nodes.start, batch.texts.start) == (seen_nodes, seen_texts)
        seen_nodes, seen_texts = batch.nodes.stop, batch.texts.stop
        assert batch.ids[batch.real].tolist() == forest.tokens[batch.nodes].tolist()
        number = torch.full(batch.real.shape, -1)
        number[batch.real] = torch.arange(batch.nodes.start, batch.nodes.stop)
        members = [set(row[chosen].tolist()) for row, chosen in _texts(number, batch.members, batch.held)]
        assert members == [set(path.tolist()) for path in _paths(forest)[batch.texts]]
        last = [row[chosen].tolist() for row, chosen in _texts(number, batch.last, batch.held)]
        assert last == [[int(path[-1])] for path in _paths(forest)[batch.texts]]
        if tree:
            for row, mask, real in zip(number, batch.mask, batch.real, strict=True):
                for node, sees in zip(row[real].tolist(), mask[real], strict=True):
                    assert set(row[sees].tolist()) == ancestors[node]
            assert batch.mask.diagonal(dim1=1, dim2=2).all()
        else:
            assert batch.mask is None
    assert (seen_nodes, seen_texts) == (len(forest.tokens), len(distinct))


def _texts(number, chosen, held):
    return [(number[row], chosen[row, text]) for row, text in held.nonzero().tolist()]


def test_plain_rows_are_the_texts():
    forest = packing.plain([(5,), (1, 2), (1, 3, 4)])
    assert forest.tokens.tolist() == [5, 1, 2, 1, 3, 4]
    assert np.diff(forest.rows).tolist() == [1, 2, 3]
