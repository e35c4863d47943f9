"""How wrong the route must be before the answer changes."""

from dataclasses import dataclass

import numpy as np

from redlib.explain.explanation import Explanation


@dataclass(frozen=True)
class Tipping:
    """Sending `share` of all weight to one expert, away from the present route, turns the answer into `value`; both
    None where not even all of it does."""

    expert: str
    share: float | None
    value: int | None


def tipping(e: Explanation) -> tuple[Tipping, ...]:
    """For each of K experts the least share t at which the weights (1 - t) alpha + t (all to that expert) change the
    answer. Exact: logits are linear in t. Empty for a method that is no sum over experts.
    """
    now, answer = e.logits.astype(float), e.labels.index(e.answer.value)
    lead = now[answer] - now  # (C,), at least 0
    return tuple(_towards(e, expert.name, expert.contribution, lead, answer) for expert in e.experts)


def _towards(e: Explanation, name: str, contribution: np.ndarray, lead: np.ndarray, answer: int) -> Tipping:
    alone = e.base_logits.astype(float) + contribution
    left = alone[answer] - alone  # what the lead over each value becomes at t = 1
    losing = left < 0
    if not losing.any():
        return Tipping(name, None, None)
    share = np.full(len(lead), np.inf)
    share[losing] = lead[losing] / (lead[losing] - left[losing])
    first = int(share.argmin())
    return Tipping(name, float(share[first]), e.labels.values[first])


def easiest(tippings: tuple[Tipping, ...]) -> Tipping | None:
    """The one that needs the least share; None where no expert changes the answer."""
    return min((t for t in tippings if t.share is not None), key=lambda t: t.share, default=None)
