"""What the models read: the study's questions with answers and step programs, one token a digit.

A document is a prompt and its completion: `What is 47 plus 38? =` and `85`, or a chain, a new line, and its program.
The loss is taken on completions only, so that a router may read the whole prompt without seeing what is predicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from redlib.expressions import Expression
from redlib.programs import Program

END = "<|end|>"
KINDS = ("task1", "task2", "program")
PROGRAMS = 4  # of every so many chains one is written as a program too: these documents are several times as long


def documents(additions: pd.DataFrame, chains: pd.DataFrame) -> pd.DataFrame:
    """Documents of the rows of a pool of Task 1 and one of Task 2: columns kind, row (of its
    pool), prompt, completion, structure.

    Every row is an answer, and every fourth chain a program too.
    """
    programs = {text: Program.from_expression(Expression.read(text)).text for text in chains["expression"].unique()}
    parts = [_answers("task1", additions), _answers("task2", chains)]
    some = chains.iloc[::PROGRAMS]
    parts.append(_frame("program", some["text"] + "\n", some["expression"].map(programs), some))
    return pd.concat(parts, ignore_index=True)


def _answers(kind: str, rows: pd.DataFrame) -> pd.DataFrame:
    return _frame(kind, rows["text"] + " =", rows["value"].astype(str), rows)


def _frame(kind: str, prompts, completions, rows: pd.DataFrame) -> pd.DataFrame:
    texts = {"prompt": prompts, "completion": completions, "structure": rows["structure"]}
    return pd.DataFrame({"kind": kind, "row": rows.index, **texts})


def tokenizer(texts: Sequence[str]) -> Any:
    """One token a digit, every word of the texts whole (with the space before it), everything else byte by byte."""
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    words = {piece for text in texts for piece, _ in split.pre_tokenize_str(text)}
    pieces = [END, *sorted(pre_tokenizers.ByteLevel.alphabet()), *sorted(words)]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    backend = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True))
    backend.pre_tokenizer = split
    backend.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=END, eos_token=END)


@dataclass(frozen=True)
class Corpus:
    """Documents as tokens, padded on the right: ids (N, T), lengths of prompts and of whole documents (N,).

    `about`: the documents' frame, in the same order.
    """

    ids: Tensor
    prompts: Tensor
    lengths: Tensor
    about: pd.DataFrame

    @classmethod
    def of(cls, frame: pd.DataFrame, tokens: Any) -> "Corpus":
        """The documents of a frame by a tokenizer; each ends with the token END."""
        heads = tokens(frame["prompt"].tolist(), add_special_tokens=False)["input_ids"]
        tails = tokens(frame["completion"].tolist(), add_special_tokens=False)["input_ids"]
        end = tokens.eos_token_id
        whole = [torch.tensor([*head, *tail, end]) for head, tail in zip(heads, tails, strict=True)]
        ids = torch.nn.utils.rnn.pad_sequence(whole, batch_first=True, padding_value=end)
        lengths = torch.tensor([len(text) for text in whole])
        return cls(ids, torch.tensor([len(head) for head in heads]), lengths, frame.reset_index(drop=True))

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: np.ndarray) -> "Corpus":
        """Those of the documents that rows (n,) name, cut to the longest of them."""
        index = torch.from_numpy(np.array(rows))
        lengths = self.lengths[index]
        ids = self.ids[index, : int(lengths.max())]
        return Corpus(ids, self.prompts[index], lengths, self.about.iloc[np.asarray(rows)])

    @property
    def targets(self) -> Tensor:
        """Which of the tokens 1..T-1 belong to a completion (its END too), (N, T - 1)."""
        place = torch.arange(1, self.ids.shape[1])
        return (place >= self.prompts[:, None]) & (place < self.lengths[:, None])

    @property
    def there(self) -> Tensor:
        """Which tokens are not padding, (N, T)."""
        return torch.arange(self.ids.shape[1]) < self.lengths[:, None]


def prompts(texts: Sequence[str], tokens: Any, batch: int, length: int) -> Tensor:
    """(batch, length) ids of real text for timing: the texts joined, each row from another place."""
    joined = "\n".join(texts)
    ids = torch.tensor(tokens(joined, add_special_tokens=False)["input_ids"])
    need = batch * length
    if len(ids) < need:
        ids = ids.repeat(-(-need // len(ids)))
    return ids[:need].view(batch, length)
