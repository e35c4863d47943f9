"""Decoder layers on tokens laid end to end, and what of them is trained."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import backbone
from redlib.backbone.layers import Tokens, room, run
from redlib.decomposer import Writer


def padded(bone, texts):
    ids = bone.encode(texts)
    mask = torch.arange(max(map(len, ids))) < torch.tensor([len(i) for i in ids])[:, None]
    table = torch.zeros(mask.shape, dtype=torch.int64)
    table[mask] = torch.tensor(list(itertools.chain(*ids)))
    return table, mask


def test_layers_on_tokens_end_to_end_are_the_decoders_own(tiny, records):
    table, mask = padded(tiny, records["expr"].iloc[:9].tolist())
    own = tiny.run(table, mask, keep=[2, -1])
    row, position = mask.nonzero(as_tuple=True)
    top = tiny.top(2)
    with torch.no_grad():
        states = run(top.layers, top.rotary, own[2][mask], Tokens(row, position, len(mask)))
    torch.testing.assert_close(top.norm(states), own[-1][mask], rtol=1e-4, atol=1e-4)


def test_only_what_is_asked_is_computed_and_it_is_the_same(tiny, records):
    table, mask = padded(tiny, records["expr"].iloc[:5].tolist())
    row, position = mask.nonzero(as_tuple=True)
    tokens, top = Tokens(row, position, len(mask)), tiny.top(2)
    states = tiny.run(table, mask, keep=[2])[2][mask]
    asked = torch.tensor([0, 3, 4, len(row) - 1])
    with torch.no_grad():
        whole, some = (run(top.layers, top.rotary, states, tokens, asked=a) for a in (None, asked))
    torch.testing.assert_close(some, whole[asked], rtol=1e-5, atol=1e-5)


@settings(max_examples=10)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=4), st.integers(0, 99))
def test_kept_keys_and_values_stand_for_the_tokens_before(tiny, records, cuts, seed):
    texts = records["expr"].iloc[seed * 3 : seed * 3 + len(cuts)].tolist()
    table, mask = padded(tiny, texts)
    lengths, layers, rotary = mask.sum(1).tolist(), tiny.model.layers, tiny.model.rotary_emb
    row, position = mask.nonzero(as_tuple=True)
    with torch.no_grad():
        whole = run(layers, rotary, tiny.model.embed_tokens(table[mask]), Tokens(row, position, len(texts)))
        kept = room(layers, len(texts), max(lengths) + 3, whole)
        before = [min(n - 1, cut) for n, cut in zip(lengths, cuts, strict=True)]
        filled, said = [0] * len(texts), []
        for counts in (before, [n - b for n, b in zip(lengths, before, strict=True)]):
            if sum(counts):
                ids = [t for b, n in enumerate(counts) for t in table[b, filled[b] : filled[b] + n].tolist()]
                tokens = Tokens.following(counts, filled)
                said.append((tokens, run(layers, rotary, tiny.model.embed_tokens(torch.tensor(ids)), tokens, kept)))
                filled = [f + n for f, n in zip(filled, counts, strict=True)]
    found = torch.full((*mask.shape, whole.shape[-1]), torch.nan)
    for tokens, states in said:
        found[tokens.row, tokens.position] = states
    torch.testing.assert_close(found[mask], whole, rtol=1e-4, atol=1e-4)


def test_only_the_copied_layers_norm_and_readout_are_trained(tiny, grammar):
    before = {name: p.clone() for name, p in tiny.model.named_parameters()}
    writer = Writer.of(tiny, grammar)
    names = {name.partition(".")[0] for name, p in writer.named_parameters() if p.requires_grad}
    assert names == {"top", "readout"}
    assert writer.readout.weight.shape == (len(grammar.tokens), tiny.hidden_size)
    assert torch.equal(writer.readout.weight, tiny.model.embed_tokens.weight[grammar.tokens])
    ids = tiny.encode(["What is 2 plus 3"])[0]
    states, mask = torch.randn(1, len(ids), tiny.hidden_size), torch.ones(1, len(ids), dtype=torch.bool)
    writer(states, mask, torch.tensor([2])).sum().backward()
    assert all(p.grad is not None for p in writer.parameters())
    assert all(p.grad is None and torch.equal(p, before[name]) for name, p in tiny.model.named_parameters())
    with pytest.raises(ValueError, match="top_layers is 0 for tiny"):
        Writer.of(backbone.load("tiny", top_layers=0), grammar)
