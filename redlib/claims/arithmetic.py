"""The main document's statements against each other: each function does the arithmetic and says if they agree.

ARITHMETIC maps a name to a function without arguments; it returns what the numbers are, in words, and whether they
agree. Numbers that the source reports as results come from data/claims.csv; what it says of its set-up stands here.
"""

from collections.abc import Callable
from itertools import product

import numpy as np

from redlib import cost
from redlib.claims.judging import reported
from redlib.claims.reported import load, stated_levels
from redlib.expressions import Expression, LabelSpace, additions

LABELS, OPERANDS = LabelSpace(), (2, 50)
BACKBONE, HIDDEN = "qwen3-0.6b", 256  # of its router
ROWS, SINGLE, LAYERS = 80_000, 0.80, (28, 2)  # rows of a task; share of single operations; frozen and trained layers
RANKS = (2, 4, 8)  # d over rank
STEPS = {2: 0.5, 3: 0.3, 4: 0.2}  # operations of Task 2 (4.2.3)
EXAMPLE = "33 + 23 - 36"  # its own record of a program (4.2.7)
Said = tuple[str, bool]
ARITHMETIC: dict[str, Callable[[], Said]] = {}


def _named(function: Callable[[], Said]) -> Callable[[], Said]:
    ARITHMETIC[function.__name__] = function
    return function


def _d() -> int:
    return cost.configuration(BACKBONE).hidden_size


def _leading(name: str, rank: int = 0) -> float:
    return cost.leading(name, _d(), LABELS.C, LABELS.K, rank)


@_named
def repeated_pairs() -> Said:
    """80,000 rows without repeated structures against the pairs that there are."""
    pairs = [len(stratum) for stratum in additions(OPERANDS, LABELS)]
    said = f"{sum(pairs):,} ordered pairs: {ROWS / sum(pairs):.0f} rows a pair, in R1 {ROWS / LABELS.K / pairs[0]:.0f}"
    return said, sum(pairs) >= ROWS


@_named
def layers() -> Said:
    """The bottom 28 frozen and the top 2 trained, of a backbone's layers."""
    there = cost.configuration(BACKBONE).num_hidden_layers
    return f"{' + '.join(map(str, LAYERS))} = {sum(LAYERS)}, and the backbone has {there} layers", sum(LAYERS) == there


@_named
def classes() -> Said:
    """Five ranges to tell apart against F1 over 99 classes."""
    return f"{LABELS.K} ranges, {LABELS.C} classes", LABELS.K == LABELS.C


@_named
def first_range() -> Said:
    """Macro-F1 of R1 with every answer right, as a number of labels over all."""
    low, high = LABELS.bounds[0]
    labels = reported("4.6.3-16") * LABELS.C
    possible = len({sum(e.terms) for e in additions(OPERANDS, LABELS)[0]})
    said = f"{labels:.1f} of {LABELS.C} labels score, {low} to {high}; {possible} are sums of two operands from "
    return f"{said}{OPERANDS[0]} on", round(labels) <= possible


@_named
def reachable_values() -> Said:
    """Sums from 2 on against two operands from 2 on."""
    sums = {sum(e.terms) for stratum in additions(OPERANDS, LABELS) for e in stratum}
    return f"sums {min(sums)} to {max(sums)}: {len(sums)} of {LABELS.C} values", len(sums) == LABELS.C


@_named
def operand_one() -> Said:
    """A case study's operand against the operands' range."""
    question = load().set_index("claim_id").loc["4.11-19", "group"]
    terms = [int(word) for word in question.strip("?").split() if word.isdigit()]
    outside = [term for term in terms if not OPERANDS[0] <= term <= OPERANDS[1]]
    return f"{question} {outside} outside {OPERANDS[0]} to {OPERANDS[1]}", not outside


@_named
def own_rows() -> Said:
    """An expert's own range against all rows."""
    own = ROWS // LABELS.K
    return f"of {ROWS:,} rows that are balanced, {own:,} lie in a range", own == ROWS


@_named
def number_of_experts() -> Said:
    """Five experts as the best number against what two are reported to reach."""
    two, five = reported("4.8.3-01"), reported("4.6.1-07")
    return f"two experts {two}, five {five}", five >= two


@_named
def addition_only() -> Said:
    """Experts trained on additions only against the operators of their data."""
    minus = round(sum(share * n for n, share in STEPS.items()) * ROWS / 2)
    return (
        f"{minus:,} minus signs among Task 2's rows, half of all, and 20,000 rows of a subtraction expert",
        minus == 0,
    )


@_named
def absolute_gain() -> Said:
    """A gain of 38 points against the two accuracies."""
    ours, theirs = reported("4.7.1-07"), reported("4.7.1-05")
    gap, share = 100 * (ours - theirs), 100 * (ours / theirs - 1)
    return f"{ours} - {theirs} = {gap:.2f} points; {share:.0f} % relative", round(gap) == 38


@_named
def router_accuracy_again() -> Said:
    """RED's accuracy on values against its router's on ranges."""
    pairs = [("4.6.1-07", "4.6.4-03"), ("4.7.1-07", "4.7.3-05"), ("4.7.1-08", "4.7.3-06")]
    numbers = [(reported(a), reported(b)) for a, b in pairs]
    said = ", ".join(f"{a:.4f} and {b:.4f}" for a, b in numbers)
    return f"the same to four digits: {said}", any(a != b for a, b in numbers)


@_named
def uniform_overall() -> Said:
    """An accuracy over all rows against those of the ranges."""
    overall, best = reported("4.7.1-03"), max(reported(f"4.7.2-{i:02d}") for i in range(6, 11))
    return f"overall {overall}, best range {best}", overall <= best


@_named
def single_step_ceiling() -> Said:
    """80 % single operations, as easy as Task 1, against the accuracy of all: what is left for several steps."""
    rest = (reported("4.7.1-07") - SINGLE * reported("4.6.1-07")) / (1 - SINGLE)
    said = f"({reported('4.7.1-07')} - {SINGLE} x {reported('4.6.1-07')}) / {1 - SINGLE:.1f} = {rest:.3f}"
    return f"{said} for several steps", rest >= 0


@_named
def share_of_single() -> Said:
    """Proportions of two to four operations against 80 % with one."""
    said = ", ".join(f"{share:.0%} with {n} steps" for n, share in STEPS.items())
    return f"{said}; {SINGLE:.0%} with one operation", max(STEPS.values()) >= SINGLE


@_named
def mislabelled_levels() -> Said:
    """The level tables against the source's own thresholds."""
    levels = stated_levels()
    wrong = levels[~levels["agrees"]]
    cells = "; ".join(f"{row.method} {row.group} {row.reported}: {row.level}" for row in wrong.itertuples())
    return f"{len(wrong)} of {len(levels)} cells differ: {cells}", wrong.empty


@_named
def parameters_reversed() -> Said:
    """The source's parameter formulas at its own ranks: RED over the mixture."""
    ratios = {f"d/{n}": _leading("red/4.10", _d() // n) / _leading("softmax_moe") for n in RANKS}
    return ", ".join(f"{r:.2f} times at rank {rank}" for rank, r in ratios.items()), max(ratios.values()) <= 0.1


@_named
def two_forms() -> Said:
    """A correction that leads back to h, of 4.4, against dr + rC of 4.10, at d/8."""
    rank = _d() // RANKS[-1]
    back, head = 2 * _d() * rank, _d() * rank + rank * LABELS.C
    return f"2dr = {back:,}, dr + rC = {head:,} parameters an expert", back == head


@_named
def identical_experts() -> Said:
    """The mixture's full-rank heads against RED's low-rank experts, called identical."""
    head, low = _d() * LABELS.C, (_d() + LABELS.C) * _d() // RANKS[-1]
    return f"dC = {head:,} and dr + rC = {low:,} parameters an expert", head == low


@_named
def router_size() -> Said:
    """A router of K d parameters against two layers with 256 units."""
    linear, real = LABELS.K * _d(), (_d() + 1) * HIDDEN + (HIDDEN + 1) * LABELS.K
    return f"Kd = {linear:,}, two layers {real:,}: {real / linear:.1f} times", real <= 1.1 * linear


@_named
def partial_results() -> Said:
    """Operands of single steps against the partial results of the programs that they execute."""
    first, last = OPERANDS
    numbers = np.arange(first, last + 1)
    outside = valid = 0
    for s, t in product((1, -1), repeat=2):
        partial = numbers[:, None] + s * numbers
        final = partial[:, :, None] + t * numbers
        fits = (final >= LABELS.lo) & (final <= LABELS.hi)
        leaves = ((partial < first) | (partial > last))[:, :, None] & fits
        outside, valid = outside + int(leaves.sum()), valid + int(fits.sum())
    own = Expression.read(EXAMPLE).partials[0]
    said = f"{EXAMPLE} passes {own}; of all two-step programs {outside / valid:.0%} leave {first} to {last}"
    return said, outside == 0 and own <= last


@_named
def subtraction_ranges() -> Said:
    """Single subtractions against five ranges."""
    numbers = range(OPERANDS[0], OPERANDS[1] + 1)
    values = [a - b for a in numbers for b in numbers if LABELS.lo <= a - b <= LABELS.hi]
    count = np.bincount([LABELS.range_of(value) for value in values], minlength=LABELS.K)
    said = ", ".join(f"{name} {n}" for name, n in zip(LABELS.names, count, strict=True))
    return f"{len(values):,} pairs: {said}", bool((count > 0).all())


@_named
def balanced_mean() -> Said:
    """Accuracy over balanced ranges against the mean of the ranges."""
    frame = load()
    frame = frame[(frame["metric"] == "accuracy") & frame["section"].isin(["4.6.1", "4.6.2", "4.7.1", "4.7.2"])]
    means = frame[frame["group"] != "all"].groupby(["task", "method"])["number"].mean()
    overall = frame[frame["group"] == "all"].set_index(["task", "method"])["number"]
    gap = overall - means
    each = (f"{task} {name} {overall[task, name]:.4f}, mean {means[task, name]:.4f}" for task, name in gap.index)
    return "; ".join(each), bool((gap.abs() <= 1e-4).all())


@_named
def macro_f1_note() -> Said:
    """Macro-F1 that is called lower against RED's two numbers."""
    gap = reported("4.6.1-07") - reported("4.6.1-08")
    return f"{reported('4.6.1-07')} - {reported('4.6.1-08')} = {gap:.4f}", gap > 0.01


@_named
def near_perfect() -> Said:
    """0.98 to 0.99 for both configurations against the accuracy on Task 1."""
    return f"Task 1: {reported('4.6.1-07')}", reported("4.6.1-07") >= 0.98


@_named
def errors_accumulate() -> Said:
    """Errors that accumulate over steps against accuracies by depth."""
    two, four = reported("4.8.3-03"), reported("4.8.3-07")
    return f"two steps {two}, hence four {two**2:.4f} if errors accumulate; reported {four}", four <= two**2
