"""Behaviour along the value axis (the source, 4.6.5): what a method says as the true value moves through its ranges,
and numbers for what the source calls "smooth" and "oscillates".

A population holds every ordered pair of operands (`datasets.population`). `Sweep` averages a method's answers by true
value: mean routing weight of each expert, mean probability of each range, accuracies, entropy of the weights. The
ideal probabilities are a step: one range has all, and hands over to the next at their boundary.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from redlib.statistics import CurveResampler, Curves, Resampler, Statistic

NEEDED = ("value", "range", "structure", "template", "first", "second")


def variation(curve: np.ndarray) -> np.ndarray:
    """Total variation of curves (..., V, K): half the summed changes from value to value, so that one range handing
    all over to another counts 1, at once or gradually."""
    return np.abs(np.diff(curve, axis=-2)).sum((-1, -2)) / 2


def flips(curve: np.ndarray) -> np.ndarray:
    """How often the largest of K changes along curves (..., V, K)."""
    return (np.diff(curve.argmax(-1), axis=-1) != 0).sum(-1)


def largest_step(curve: np.ndarray) -> np.ndarray:
    """The largest change from one value to the next of curves (..., V, K), halved as in `variation`: 1 is a jump."""
    return np.abs(np.diff(curve, axis=-2)).sum(-1).max(-1, initial=0) / 2


def backtrack(curve: np.ndarray) -> np.ndarray:
    """How far curves (..., V, K) go back: for every boundary, the summed decreases of the share above it as the value
    increases. 0 for every gradual or sudden handing over that never turns, whatever share changes hands."""
    return np.clip(-np.diff(_above(curve), axis=-2), 0, None).sum((-1, -2))


def _above(shares: np.ndarray) -> np.ndarray:
    """Shares (..., K) of ranges -> shares (..., K-1) above each boundary."""
    return np.cumsum(shares[..., ::-1], axis=-1)[..., ::-1][..., 1:]


SHAPES = {"extra_variation": variation, "backtrack": backtrack, "extra_flips": flips, "largest_step": largest_step}
WEIGHT_SHAPES = ("extra_variation", "backtrack", "largest_step")


def held_back(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table of sweeps that answer for a split: group `unseen` where the split has it, otherwise `all`."""
    keys = ["task", "variant", "split"]
    unseen = frame[frame["group"] == "unseen"][keys].drop_duplicates()
    known = pd.MultiIndex.from_frame(frame[keys]).isin(pd.MultiIndex.from_frame(unseen))
    return frame[frame["group"].to_numpy() == np.where(known, "unseen", "all")]


def entropy(weights: np.ndarray) -> np.ndarray:
    """Entropy of weights (N, K) in nats: 0 for one expert alone, log K for equal weights."""
    return -(weights * np.log(np.clip(weights, 1e-30, None))).sum(-1)


def steps(ranges: np.ndarray) -> int:
    """Changes of the true range along (V,) values: what an ideal curve has, in variation as in flips."""
    return int((np.diff(ranges) != 0).sum())


class Sweep:
    """One population of N texts, along its V true values, for S seeds.

    population: `datasets.population` with operands, of one operator. masks: the texts of each seed, (N,) each; the
    default is all of them, for `seeds` seeds. Intervals resample structures within a value (rows of an operand map for
    the row_ metrics), then seeds, alike for every method, so that differences are paired.
    Raises ValueError for a label space of one range, missing columns, several operators, and masks of another length.
    """

    def __init__(
        self,
        population: pd.DataFrame,
        space,
        masks: Sequence[np.ndarray] | None = None,
        seeds: int = 1,
        resamples: int = 1000,
        seed: int = 0,
    ):
        if space.K < 2:
            raise ValueError("a label space of one range has no boundary")
        missing = [name for name in NEEDED if name not in population]
        if missing:
            raise ValueError(f"a population lacks the columns {', '.join(missing)}; needed: {', '.join(NEEDED)}")
        n = len(population)
        masks = [np.ones(n, bool)] * seeds if masks is None else [np.asarray(mask, bool) for mask in masks]
        if any(mask.shape != (n,) for mask in masks):
            raise ValueError(f"a mask must say of each of the {n} texts whether it counts, got {masks[0].shape}")
        self.space, self.masks, self.n = space, masks, n
        self.value, self.range = (population[name].to_numpy() for name in ("value", "range"))
        self.curved = CurveResampler(self.value, population["structure"], masks, resamples, seed)
        self.ranges = np.array([space.range_of(int(value)) for value in self.curved.places])
        self._rows = _Rows(population, len(masks), resamples, seed) if all(mask.all() for mask in masks) else None

    @property
    def names(self) -> list[str]:
        """The metrics of `curves`, in order; a method without a router has only those that are no weights."""
        K, R = self.space.K, self.space.names
        return [
            *(f"probability_{R[k]}" for k in range(K)),
            "value_accuracy",
            "range_accuracy",
            *(f"weight_{R[k]}" for k in range(K)),
            "weight_entropy",
        ]

    def curves(self, said: Sequence[pd.DataFrame]) -> Curves:
        """Mean curves by true value of a method's answers, a frame of `predict(..., probabilities=True)` a seed."""
        return self.curved.means([self._columns(frame) for frame in said])

    def _columns(self, said: pd.DataFrame) -> np.ndarray:
        p, alpha = self._arrays(said)
        hits = [said["predicted_value"].to_numpy() == self.value, said["predicted_range"].to_numpy() == self.range]
        parts = [p, np.stack(hits, 1)] + ([] if alpha is None else [alpha, entropy(alpha)[:, None]])
        return np.concatenate(parts, 1)

    def _arrays(self, said: pd.DataFrame) -> tuple[np.ndarray, np.ndarray | None]:
        if len(said) != self.n:
            raise ValueError(f"answers to {len(said)} texts do not fit a population of {self.n}")
        numbers = range(1, self.space.K + 1)
        missing = [name for k in numbers for name in (f"probability_{k}", f"alpha_{k}") if name not in said]
        extra = f"alpha_{self.space.K + 1}" in said
        if missing or extra:
            have = sum(str(name).startswith("alpha_") for name in said)
            raise ValueError(
                f"answers need weights and range probabilities for K={self.space.K} ranges; they have {have} weights"
                + (f" and lack {missing[0]}" if missing else "")
            )
        p, alpha = (said[[f"{name}_{k}" for k in numbers]].to_numpy(float) for name in ("probability", "alpha"))
        return p, None if np.isnan(alpha).any() else alpha

    def shapes(self, said: Sequence[pd.DataFrame], curves: Curves | None = None) -> dict[str, Statistic]:
        """Numbers for the shape of a method's curves, by metric.

        extra_variation: total variation of the mean range probabilities beyond the ideal step's (negative: ranges
        that it never quite reaches). backtrack: how far they go back towards lower ranges, 0 for the ideal step.
        extra_flips: changes of their largest beyond the necessary ones. largest_step: 1 for the ideal step.
        weight_extra_variation, weight_backtrack, weight_largest_step: the same of the mean routing weights.
        value_accuracy and range_accuracy: every value with the same weight.
        Where all texts count also row_extra_variation, row_backtrack, row_extra_flips (of the predicted range) and the
        row_weight_ ones: single texts of one wording and first operand while the second operand moves, mean over
        these rows of the operand map.
        """
        curves = self.curves(said) if curves is None else curves
        K = self.space.K
        p, alpha = slice(0, K), slice(K + 2, 2 * K + 2)
        made = {name: curves.statistic(self._measure(name), p) for name in SHAPES}
        for at, name in ((K, "value_accuracy"), (K + 1, "range_accuracy")):
            made[name] = curves.statistic(lambda curve, _: curve.mean((-1, -2)), slice(at, at + 1))
        if curves.value.shape[-1] > K + 2:
            made |= {f"weight_{name}": curves.statistic(self._measure(name), alpha) for name in WEIGHT_SHAPES}
        return made | (self._rows.shapes([(frame, *self._arrays(frame)) for frame in said]) if self._rows else {})

    def _measure(self, name: str):
        """The measure as a function of curves and the places that they have; extra_ ones less the ideal step's."""

        def measured(curve: np.ndarray, places: np.ndarray) -> np.ndarray:
            ideal = steps(self.ranges[np.searchsorted(self.curved.places, places)]) if name.startswith("extra_") else 0
            return SHAPES[name](curve) - ideal

        return measured


class _Rows:
    """The rows of an operand map: texts of one wording and first operand, in order of the value."""

    def __init__(self, population: pd.DataFrame, seeds: int, resamples: int, seed: int):
        operators = population["operator"].unique() if "operator" in population else ["one"]
        if len(operators) > 1:
            raise ValueError(f"a sweep is of one operator, got {', '.join(operators)}")
        self.order = np.lexsort([population[name].to_numpy() for name in ("value", "first", "template")])
        rows = population.iloc[self.order]
        self.range = rows["range"].to_numpy()
        first, template = rows["first"].to_numpy(), rows["template"].to_numpy()
        self.same = (first[1:] == first[:-1]) & (template[1:] == template[:-1])  # (N-1,)
        self.names, self.row = np.unique(first, return_inverse=True)
        self.wordings = population["template"].nunique()
        self.texts = len(population)
        items = np.tile(self.names, seeds)
        self.resampler = Resampler(np.repeat(np.arange(seeds), len(self.names)), items, None, resamples, seed)

    def shapes(self, said: Sequence[tuple[pd.DataFrame, np.ndarray, np.ndarray | None]]) -> dict[str, Statistic]:
        ideal = self._sum(np.diff(self.range) != 0)
        by_seed = []
        for frame, p, alpha in said:
            predicted = frame["predicted_range"].to_numpy()[self.order]
            found = {"row_extra_flips": self._sum(np.diff(predicted) != 0) - ideal}
            for prefix, shares in (("row", p), ("row_weight", alpha)):
                if shares is not None:
                    change, retreat = self._changes(shares)
                    found |= {f"{prefix}_extra_variation": change - ideal, f"{prefix}_backtrack": retreat}
            by_seed.append(found)
        columns = {name: np.concatenate([found[name] for found in by_seed]) for name in by_seed[0]}
        table = np.column_stack(list(columns.values()))
        return dict(zip(columns, self.resampler.ratio(table, np.ones_like(table)), strict=True))

    def _changes(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variation and backtrack of every row of the map, (A,) each."""
        ordered = shares[self.order]
        change = np.abs(np.diff(ordered, axis=0)).sum(1) / 2
        return self._sum(change), self._sum(np.clip(-np.diff(_above(ordered), axis=0), 0, None).sum(1))

    def _sum(self, changes: np.ndarray) -> np.ndarray:
        """Changes between neighbouring texts (N-1,) -> their sum in each row of the map (A,), mean over wordings."""
        sums = np.bincount(self.row[1:], weights=changes * self.same, minlength=len(self.names))
        return sums / self.wordings
