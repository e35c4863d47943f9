"""Pretrained models beside the trained ones: how often they are right on questions that they were not trained on."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from redlib.sparse.models import advance

WORDING = "Question: {}\nAnswer:"
NEW = 5  # tokens of an answer: a space, up to three digits, and what follows
CHUNK = 32  # questions at a time


@torch.no_grad()
def right(model: nn.Module, tokens: Any, questions: Sequence[str], values: Sequence[int]) -> np.ndarray:
    """Whether the first number that a model writes, greedily, after each question is its value: (N,) bool."""
    asked = tokens([WORDING.format(question) for question in questions], add_special_tokens=False)["input_ids"]
    by_length: dict[int, list[int]] = defaultdict(list)
    for row, ids in enumerate(asked):
        by_length[len(ids)].append(row)
    found = np.zeros(len(questions), dtype=bool)
    for rows in by_length.values():
        for first in range(0, len(rows), CHUNK):
            some = rows[first : first + CHUNK]
            for row, text in zip(some, _written(model, tokens, [asked[row] for row in some]), strict=True):
                number = re.match(r"\s*(-?\d+)", text)
                found[row] = number is not None and int(number[1]) == values[row]
    return found


def _written(model: nn.Module, tokens: Any, asked: list[list[int]]) -> list[str]:
    state, given, written = None, torch.tensor(asked), []
    for _ in range(NEW):
        logits, state = advance(model, given, state)
        given = logits.argmax(-1, keepdim=True)
        written.append(given)
    return tokens.batch_decode(torch.cat(written, 1))
