"""Draws of Task 2 (the source, 4.2.3): chains of + and -, by range, number of operations and number of plus signs.

Every order of the signs is to be equally frequent wherever a range allows it. No chain of minus signs alone reaches
the upper ranges, so there + prevails; `quotas` makes up for it below them until + and - are equally frequent overall.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, lcm, prod, sqrt
from typing import TypeVar

from redlib.expressions import Chains, Expression, LabelSpace
from redlib.phrasing import GROUPS, TASK2, ChainTemplate


@dataclass(frozen=True)
class Steps:
    """What "two, three and four steps" means: percent of the rows by number of operations.

    `even_signs`: + and - are equally frequent over all; otherwise their share is what the ranges leave.
    """

    percent: Mapping[int, int]
    even_signs: bool = True

    @property
    def unit(self) -> int:
        """The smallest number of rows whose percentages are whole rows."""
        return 100 // gcd(100, *self.percent.values())


STEPS = {
    "operations": Steps({2: 50, 3: 30, 4: 20}),  # the source, 4.2.3 read literally
    "operands": Steps({1: 50, 2: 30, 3: 20}),  # "two-step" has two operands: the clarification of 4.7
    "single_heavy": Steps({1: 80, 2: 10, 3: 6, 4: 4}, even_signs=False),  # 80 % with one operation: 4.7
    "programs": Steps({2: 20, 3: 40, 4: 40}),  # records of the step decomposer, 2:4:4: 4.2.7
    "longer": Steps({5: 50, 6: 50}),  # ours: longer chains than any method is trained on
}
_TILTS = (1e-6, 1e6)  # how many times likelier one more - may make a chain
_TRIES = 1_000  # draws for every chain wanted, before it is said that too few keep their partial results in bounds

Stratum = tuple[int, int]  # number of operations, number of plus signs
Quotas = list[dict[Stratum, int]]  # rows of every stratum, one dict a range
Part = TypeVar("Part")


def draw(
    rows: int,
    steps: str,
    operands: tuple[int, int],
    labels: LabelSpace,
    rng: random.Random,
    partials: tuple[int, int] | None = None,
) -> list[tuple[Expression, ChainTemplate]]:
    """`rows` distinct (chain, template) pairs: rows/K of every range and rows/(K*GROUPS) of every wording group there.

    `partials`: bounds that every partial result keeps; chains of a stratum that do not are drawn again. Raises
    ValueError for an unknown step definition and for a request that no chains can meet, naming the constraint.
    """
    if steps not in STEPS:
        raise ValueError(f"unknown steps {steps!r}; valid steps: {', '.join(STEPS)}")
    cells = labels.K * lcm(GROUPS, STEPS[steps].unit)
    if rows <= 0 or rows % cells:
        raise ValueError(
            f"rows must be a multiple of {cells} ({labels.K} ranges x {cells // labels.K} rows, which {GROUPS} wording "
            f"groups and the shares of {steps!r} divide), got {rows}"
        )
    strata = _strata(STEPS[steps], operands, labels)
    rooms = []
    for name, chains, wanted in zip(labels.names, strata, quotas(rows // labels.K, STEPS[steps], strata), strict=True):
        for group, stratum, count in _dealt(wanted, rng):
            templates = [t for t in TASK2 if t.group == group and t.wording.least <= stratum[0]]
            if chains[stratum].count * len(templates) < count:
                raise ValueError(
                    f"{count} texts are wanted from {name} with {_say(stratum)} in wording group {group}, but operands "
                    f"{operands[0]}..{operands[1]} give {chains[stratum].count} chains x {len(templates)} templates"
                )
            rooms.append((chains[stratum], templates, count))
    return [pair for chains, templates, count in rooms for pair in _pairs(chains, templates, count, partials, rng)]


def _strata(steps: Steps, operands: tuple[int, int], labels: LabelSpace) -> list[dict[Stratum, Chains]]:
    """The chains of every range by stratum, without empty strata; ValueError where a number of operations has none."""
    strata = []
    for name, bounds in zip(labels.names, labels.bounds, strict=True):
        made = {(n, plus): Chains(plus, n - plus, bounds, operands) for n in steps.percent for plus in range(n + 1)}
        strata.append({stratum: chains for stratum, chains in made.items() if chains.count})
        for n, percent in steps.percent.items():
            if not any(stratum[0] == n for stratum in strata[-1]):
                raise ValueError(
                    f"{percent} % of {name} are to have {n} operation{'s' * (n > 1)}, but no such chain over operands "
                    f"{operands[0]}..{operands[1]} has a value in {bounds[0]}..{bounds[1]}"
                )
    return strata


def quotas(rows: int, steps: Steps, strata: list[dict[Stratum, Chains]]) -> Quotas:
    """How many of the `rows` of each range fall to each stratum: whole numbers that add up exactly.

    All orders of the signs have the same weight, times the number of values of the range that they reach, times a
    tilt for every minus sign. Single operations have no tilt; longer chains have, for each length, the tilt that makes
    + and - equally frequent over all ranges together. Raises ValueError when no tilt does.
    """
    tilts = _tilts(steps, strata) if steps.even_signs else dict.fromkeys(steps.percent, 1.0)
    exact: list[dict[Stratum, float]] = [{} for _ in strata]
    counts: Quotas = [{} for _ in strata]
    for k, chains in enumerate(strata):
        for n, percent in steps.percent.items():
            total = rows * percent // 100
            amounts = {stratum: total * share for stratum, share in _shares(n, chains, tilts[n]).items()}
            exact[k] |= {stratum: round(amount, 6) for stratum, amount in amounts.items()}  # alike on every machine
            counts[k] |= whole({stratum: exact[k][stratum] for stratum in amounts}, total)
    if steps.even_signs:
        _even_out(counts, exact)
    return counts


def _shares(operations: int, chains: Mapping[Stratum, Chains], tilt: float) -> dict[Stratum, float]:
    """The share of each stratum among a range's chains of this length."""
    weights = {s: c.orders * c.reach * prod([tilt] * c.minuses) for s, c in chains.items() if s[0] == operations}
    return {stratum: weight / sum(weights.values()) for stratum, weight in weights.items()}


def _plus_share(operations: int, strata: list[dict[Stratum, Chains]], tilt: float) -> float:
    """The share of + among the signs of all chains of this length, the ranges being equally frequent."""
    shares = (_shares(operations, chains, tilt) for chains in strata)
    return sum(plus * share for of_range in shares for (_, plus), share in of_range.items()) / operations / len(strata)


def _tilts(steps: Steps, strata: list[dict[Stratum, Chains]]) -> dict[int, float]:
    """The tilt of every length: 1 for single operations, and for the others what makes up for these, too."""
    signs = {n: n * percent for n, percent in steps.percent.items()}
    single = signs.pop(1, 0)
    wanted = (sum(signs.values()) + single) / 2 - (single * _plus_share(1, strata, 1.0) if single else 0)
    target = wanted / sum(signs.values())
    return {n: 1.0 if n == 1 else _tilt(n, strata, target) for n in steps.percent}


def _tilt(operations: int, strata: list[dict[Stratum, Chains]], target: float) -> float:
    low, high = _TILTS
    most, least = (_plus_share(operations, strata, tilt) for tilt in _TILTS)
    if not least <= target <= most:
        raise ValueError(
            f"+ and - cannot be equally frequent: chains of {operations} operations would need {target:.1%} plus signs "
            f"over all ranges, and can have {least:.1%} to {most:.1%}"
        )
    for _ in range(60):
        middle = sqrt(low * high)
        low, high = (middle, high) if _plus_share(operations, strata, middle) > target else (low, middle)
    return low


def whole(amounts: Mapping[Part, float], total: int) -> dict[Part, int]:
    """Whole numbers for amounts that add up to `total`: rounded down, the rest to the largest remainders."""
    counts = {part: int(amount) for part, amount in amounts.items()}
    by_remainder = sorted(amounts, key=lambda part: counts[part] - amounts[part])
    for part in by_remainder[: total - sum(counts.values())]:
        counts[part] += 1
    return counts


def _even_out(counts: Quotas, exact: list[dict[Stratum, float]]) -> None:
    """Move single rows of longer chains to a neighbouring stratum until + and - differ by one at most."""
    signs = sum(n * count for quota in counts for (n, _), count in quota.items())
    excess = sum((2 * plus - n) * count for quota in counts for (n, plus), count in quota.items())  # + less -
    while abs(excess) > signs % 2:
        step = -1 if excess > 0 else 1
        moves = [
            (exact[k][s] - quota[s] - exact[k][s[0], s[1] + step] + quota[s[0], s[1] + step], k, s)
            for k, quota in enumerate(counts)
            for s in quota
            if s[0] > 1 and quota[s] and (s[0], s[1] + step) in quota
        ]
        _, k, (n, plus) = min(moves)
        counts[k][n, plus] -= 1
        counts[k][n, plus + step] += 1
        excess += 2 * step


def _dealt(wanted: Mapping[Stratum, int], rng: random.Random) -> Iterator[tuple[int, Stratum, int]]:
    """A range's rows dealt to the wording groups, stratum after stratum: (group, stratum, rows).

    Groups get equally many rows in all, and of every stratum equally many but for one.
    """
    order = rng.sample(range(GROUPS), GROUPS)
    dealt = 0
    for stratum, rows in wanted.items():
        hands = Counter(order[position % GROUPS] for position in range(dealt, dealt + rows))
        dealt += rows
        yield from ((group, stratum, hands[group]) for group in range(GROUPS) if hands[group])


def _pairs(
    chains: Chains,
    templates: Sequence[ChainTemplate],
    count: int,
    partials: tuple[int, int] | None,
    rng: random.Random,
) -> list[tuple[Expression, ChainTemplate]]:
    """`count` different (chain, template) pairs; there may be too many chains for a list or a range."""
    room, tries = chains.count * len(templates), 0
    chosen: dict[int, Expression] = {}
    while len(chosen) < count:
        pick, tries = rng.randrange(room), tries + 1
        chain = chosen.get(pick) or chains[pick // len(templates)]
        if partials is None or all(partials[0] <= result <= partials[1] for result in chain.partials):
            chosen[pick] = chain
        elif tries > _TRIES * count:
            raise ValueError(
                f"{count} texts are wanted of chains with {_say((chains.operations, chains.pluses))} and a value in "
                f"{chains.bounds[0]}..{chains.bounds[1]}, but {tries} draws found {len(chosen)} whose partial results "
                f"stay in {partials[0]}..{partials[1]}"
            )
    return [(chain, templates[pick % len(templates)]) for pick, chain in chosen.items()]


def _say(stratum: Stratum) -> str:
    operations, plus = stratum
    return f"{operations} operation{'s' * (operations > 1)} ({plus} plus, {operations - plus} minus)"
