"""Hidden states: the boundary is exact, padding and masks change nothing that they should not, the top trains."""

import pytest
import torch
from padded_texts import TEXTS, padded

from redlib import backbone


def test_tiny_has_one_token_a_digit_and_loses_nothing(tiny):
    text = "What is 12 plus 30? Zażółć: (a*b) \n"
    ids = tiny.encode([text])[0]
    assert tiny.tokenizer.decode(ids) == text
    assert [tiny.tokenizer.decode([i]) for i in tiny.encode(["12 plus"])[0]] == ["1", "2", " plus"]
    assert not tiny.evidence


def test_tiny_is_the_same_every_time(tiny):
    torch.manual_seed(99)
    again = backbone.load("tiny")
    assert again.weights_id == tiny.weights_id
    ids, mask = padded(tiny)
    assert torch.equal(again.run(ids, mask)[-1], tiny.run(ids, mask)[-1])


@pytest.mark.parametrize("name", ["tiny", "smollm2"])
def test_every_hidden_state_is_the_decoders_own(name, request):
    model = request.getfixturevalue(name)
    ids, mask = padded(model)
    own = model.model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    ours = model.run(ids, mask, keep=range(model.layers + 1))
    assert all(torch.equal(ours[layer], own[layer]) for layer in range(model.layers + 1))
    assert torch.equal(model.run(ids, mask)[-1], own[-1])


@pytest.mark.parametrize("name", ["tiny", "smollm2"])
def test_replay_from_any_layer_is_bitwise_the_full_forward(name, request):
    model = request.getfixturevalue(name)
    ids, mask = padded(model)
    full = model.run(ids, mask, keep=[0, model.layers // 3, model.boundary, -1])
    for layer in (0, model.layers // 3, model.boundary):
        assert torch.equal(model.replay(full[layer], layer, mask)[-1], full[-1])


def test_a_boundary_runs_only_the_layers_below_it(tiny, monkeypatch):
    ran = []
    for number, layer in enumerate(tiny.model.layers):
        monkeypatch.setattr(layer, "forward", lambda *a, f=layer.forward, n=number, **k: ran.append(n) or f(*a, **k))
    ids, mask = padded(tiny)
    tiny.run(ids, mask, keep=[2])
    assert ran == [0, 1]


def test_padding_changes_nothing(tiny):
    ids, mask = padded(tiny)
    together = tiny.run(ids, mask)[-1]
    for row, text in enumerate(TEXTS):
        alone = tiny.run(torch.tensor(tiny.encode([text])))[-1][0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=1e-5, atol=1e-5)


def test_top_layers_have_the_gradients_of_the_unfrozen_decoder(tiny):
    ids, mask = padded(tiny)
    top = tiny.top(2).double()  # texts are laid end to end: in float32 other sums of the same numbers
    weigh = torch.randn(tiny.hidden_size, generator=torch.Generator().manual_seed(0)).double()
    whole = backbone.load("tiny").model.double().requires_grad_(True)
    found = whole(input_ids=ids, use_cache=False, output_hidden_states=True)
    states = found.hidden_states[tiny.boundary].detach()
    (top(states, mask) @ weigh)[mask].square().sum().backward()

    (found.last_hidden_state @ weigh)[mask].square().sum().backward()
    gradients = dict(top.named_parameters())
    for name, parameter in [*whole.layers[2:].named_parameters(prefix="layers"), ("norm.weight", whole.norm.weight)]:
        torch.testing.assert_close(gradients[name].grad, parameter.grad, msg=name)


def test_training_the_top_leaves_the_backbone_alone(tiny):
    before = {name: weight.clone() for name, weight in tiny.model.state_dict().items()}
    ids, mask = padded(tiny)
    top = tiny.top(1)
    optimiser = torch.optim.SGD(top.parameters(), lr=0.1)
    top(tiny.run(ids, mask, keep=[3])[3], mask).square().sum().backward()
    optimiser.step()
    assert not torch.equal(top.norm.weight, tiny.model.norm.weight)
    assert all(torch.equal(weight, before[name]) for name, weight in tiny.model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in tiny.model.parameters())


def test_no_top_layers_means_states_as_they_are(tiny):
    states = torch.randn(1, 3, tiny.hidden_size)
    assert torch.equal(tiny.top(0)(states, torch.ones(1, 3, dtype=torch.bool)), states)


def test_a_tree_mask_lets_branches_ignore_each_other(tiny):
    """Nodes: a shared first token, then two branches of one token each, in one row."""
    first, left, right = (tiny.encode([text])[0][0] for text in ("What", " is", " sum"))
    mask = torch.tensor([[[1, 0, 0], [1, 1, 0], [1, 0, 1]]]).bool()
    states = tiny.run(torch.tensor([[first, left, right]]), mask, torch.tensor([[0, 1, 1]]))[-1][0]
    for node, text in ((1, [first, left]), (2, [first, right])):
        torch.testing.assert_close(states[node], tiny.run(torch.tensor([text]))[-1][0, -1], rtol=1e-5, atol=1e-5)


def test_masks_that_are_not_understood_are_refused(tiny):
    ids = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="padded on the right"):
        tiny.run(ids, torch.tensor([[False, True, True]]))
    with pytest.raises(ValueError, match=r"boolean \(B, T\) or \(B, T, T\)"):
        tiny.run(ids, torch.ones(1, 3))
    top, states = tiny.top(1), torch.randn(1, 3, tiny.hidden_size)
    with pytest.raises(ValueError, match="padded on the right"):
        top(states, torch.tensor([[False, True, True]]))
    for mask in (torch.ones(1, 3), torch.ones(1, 3, 3, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"boolean \(B, T\), got"):
            top(states, mask)


def test_layers_that_do_not_exist_are_named(tiny):
    ids = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="no hidden state 9; valid layers: 0 to 4"):
        tiny.run(ids, keep=[9])
    with pytest.raises(ValueError, match="cannot be computed from layer 3"):
        tiny.replay(torch.randn(1, 2, 32), 3, keep=[1])
    with pytest.raises(ValueError, match="top_layers must be between 0 and 4"):
        backbone.load("tiny", top_layers=5)
    with pytest.raises(ValueError, match="cannot take the top 7"):
        tiny.top(7)


def test_an_empty_text_is_an_error(tiny):
    with pytest.raises(ValueError, match="text '' has no tokens"):
        tiny.encode(["5", ""])
    assert tiny.encode([]) == []
