"""Sparse and dense models trained on one corpus: documents, losses, balance, and exact answers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lineups import by_name

from redlib import datasets
from redlib.sparse import corpus, designs, models, pretrained, training


@pytest.fixture(scope="module")
def documents():
    pools = [datasets.build(task, 100, 0) for task in ("task1", "task2")]
    frame = corpus.documents(*pools)
    tokens = corpus.tokenizer([*frame["prompt"], *frame["completion"]])
    return corpus.Corpus.of(frame.sample(frac=1, random_state=0), tokens), tokens


def test_documents_are_questions_with_answers_and_programs(documents):
    made, tokens = documents
    assert set(made.about["kind"]) == set(corpus.KINDS)
    row = made.about[made.about["kind"] == "program"].iloc[0]
    assert row["completion"].startswith("Step 1: ")
    for i in range(5):
        text = made.about["prompt"].iloc[i] + made.about["completion"].iloc[i]
        assert tokens.decode(made.ids[i, : made.lengths[i] - 1]) == text
    assert len(tokens("2048")["input_ids"]) == 4


def test_the_loss_is_on_completions_only(documents):
    some = documents[0].batch(np.arange(4))
    assert some.ids.shape[1] == some.lengths.max()
    for i in range(4):
        wanted = some.ids[i, 1:][some.targets[i]]
        assert torch.equal(wanted, some.ids[i, some.prompts[i] : some.lengths[i]])


def test_training_lowers_the_loss_on_the_same_tokens_for_every_model(documents):
    seen = []
    for name in ("dense_a", "moe_top1", "alchemist_sparse_3"):
        design = designs.lineup(len(documents[1]), 16, 1)[name]
        history = training.train(models.build(design), documents[0], 24, 16, 1e-2, 0.02, seed=0, every=6)
        assert history["loss"].iloc[-1] < history["loss"].iloc[0]
        assert history["balance"].notna().all() == (name != "dense_a")
        seen.append(history["tokens"].tolist())
    assert seen[0] == seen[1] == seen[2]


def test_a_batch_beyond_the_corpus_is_refused(documents):
    model = models.build(designs.lineup(len(documents[1]), 16, 1)["dense_a"])
    with pytest.raises(ValueError, match="a batch of 1000 documents was asked for, and the corpus has"):
        training.train(model, documents[0], 1, 1000, 1e-3, 0.0, seed=0)


def test_exact_means_that_greedy_decoding_writes_the_completion(documents):
    made = documents[0].batch(np.flatnonzero(documents[0].about["kind"] == "task1")[:8])
    model = models.build(designs.lineup(len(documents[1]), 16, 1)["dense_a"])
    training.train(model, made, 60, 8, 2e-2, 0.0, seed=0)
    found, wrote = training.score(model, made), []
    with torch.no_grad():
        for i in range(len(made)):
            ids = made.ids[i : i + 1, : made.prompts[i]]
            while ids.shape[1] < made.lengths[i]:
                ids = torch.cat([ids, models.advance(model, ids, cache=False)[0].argmax(-1, keepdim=True)], 1)
            wrote.append(int(torch.equal(ids[0], made.ids[i, : made.lengths[i]])))
    assert found["exact"].tolist() == wrote
    assert found["tokens"].tolist() == (made.lengths - made.prompts).tolist()


class Scripted(torch.nn.Module):
    """Writes after each of some texts (token ids) the next token of its script, then END."""

    def __init__(self, scripts, words, end):
        super().__init__()
        self.words, self.end = words, end
        self.after = {tuple(s[:place]): s[place] for s in scripts for place in range(1, len(s))}

    def forward(self, ids, use_cache, logits_to_keep, **state):
        (before,) = state.values()
        whole = ids if before is None else torch.cat([before, ids], 1)
        following = torch.tensor([self.after.get(tuple(row), self.end) for row in whole.tolist()])
        logits = F.one_hot(following, self.words).float()[:, None]
        return SimpleNamespace(logits=logits, **dict.fromkeys(state, whole))


def test_an_answer_without_training_is_the_first_number_that_is_written(documents):
    tokens = documents[1]
    questions = ["What is 4 plus 5?", "What is 14 plus 3?", "What is 2 plus 2?", "What is 4 plus 4?"]
    wrote = [" 9.", "\n17 or", "four, 4", " 88"]
    texts = [pretrained.WORDING.format(q) + w for q, w in zip(questions, wrote, strict=True)]
    scripts = [[*tokens(text, add_special_tokens=False)["input_ids"], tokens.eos_token_id] for text in texts]
    model = Scripted(scripts, len(tokens), tokens.eos_token_id)
    assert pretrained.right(model, tokens, questions, [9, 17, 4, 8]).tolist() == [True, True, False, False]


def test_the_load_balance_term_is_one_at_equal_use_and_larger_otherwise():
    scores = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    assert training.balance_of(scores, torch.eye(3)).item() == pytest.approx(1.0)
    leaning = torch.tensor([[0.8, 0.1, 0.1]])
    assert training.balance_of(leaning, torch.tensor([[1.0, 0, 0]])).item() == pytest.approx(2.4)


def test_short_and_long_documents_apart_have_the_gradient_of_the_batch(documents):
    model = models.build(designs.lineup(len(documents[1]), 16, 1)["dense_a"])
    some = documents[0].batch(np.arange(20))
    found, _ = training._backward(model, some, 0.0)
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss = training.losses(model, some)[0] / some.targets.sum()
    loss.backward()
    assert found == pytest.approx(loss.item(), rel=1e-5)
    for grad, p in zip(grads, model.parameters(), strict=True):
        torch.testing.assert_close(grad, p.grad, rtol=1e-3, atol=1e-6)


@by_name
def test_shares_of_the_choices_sum_to_one(name, documents):
    design = designs.lineup(len(documents[1]), 16, 2, specialists=(3,))[name]
    shares = training.loads(models.build(design), documents[0])
    rows = {"dense_a": 0, "dense_b": 0, "moe_top1": 2, "moe_top2": 2}.get(name, 1)
    assert len(shares) == rows
    np.testing.assert_allclose(shares.sum(1), 1.0)
