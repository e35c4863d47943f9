"""Every metric of every method as tidy rows: one row a seed, and one over seeds with its interval."""

import zlib

import numpy as np
import pandas as pd

from redlib.evaluation.predictions import BLOCK, COLUMNS, Block, Method, align, check, variant
from redlib.statistics import Estimate, Resampler, Statistic, mcnemar, unpaired_difference

COMPARED = ("value_accuracy", "range_accuracy", "macro_f1")
Statistics = dict[tuple[str, str, str], Statistic]  # (method, group, metric)


def evaluate(
    predictions: pd.DataFrame,
    space,
    task: str = "task1",
    definition: str = "",
    reference: str = "red",
    resamples: int = 1000,
    seed: int = 0,
    run: str = "",
    by_range: bool = True,
) -> pd.DataFrame:
    """Tidy rows (COLUMNS) of a frame of predictions over a LabelSpace `space`.

    Groups: all, R1..RK unless `by_range` is false, and where the frame has columns `operations` and `pattern` also
    ops=<number>, ops>1 (where some have one operation), pattern=<operators> and pattern=boundary (values on either
    side of a range's edge); with a column `unseen` also unseen=<word>.
    Metrics, for all groups: value_accuracy, range_accuracy, macro_f1 (labels present in the truth),
    macro_f1_C and its macro_f1_C_ceiling; range_macro_f1 of group all, of every group if `by_range` is false. Methods
    with a router: router_accuracy, router_macro_f1, and both accuracies in the groups route=right and route=wrong.
    Compared with `reference`, seed `all` only: <metric>_below_red is the reference's number minus this method's on the
    same items (positive: the reference is better). On one row a structure: mcnemar_p_red, and the structures that
    only one of the two gets right (mcnemar_only_red, mcnemar_only_method).
    Split `text-structure`: <metric>_gap is the text split's accuracy minus the structure split's (memorisation).
    Intervals resample structures within their range, then seeds. `definition` goes before the recipe in `variant`.
    """
    check(predictions, space)
    rows: list[tuple] = []
    kept: dict[tuple[str, str, str], Statistics] = {}
    for names, part in predictions.groupby(BLOCK, sort=True, observed=True):
        block = align(part)
        where = (task, variant(definition, names[1]), names[0], names[2])
        resampler = _resampler(block, names, resamples, seed)
        statistics = _statistics(block, resampler, space, by_range)
        kept[names] = statistics
        rows += _metric_rows(where, statistics, resampler.seeds)
        if reference in block.methods:
            rows += _difference_rows(where, statistics, reference)
            rows += _mcnemar_rows(where, block, reference)
    rows += _gap_rows(task, definition, kept)
    return pd.DataFrame([(*row, run) for row in rows], columns=list(COLUMNS))


def _resampler(block: Block, names, resamples: int, seed: int) -> Resampler:
    stream = zlib.crc32("/".join(map(str, names)).encode())  # splits are resampled independently of each other
    return Resampler(block.seeds, block.structures, block.range, resamples, seed + stream)


def _statistics(block: Block, resampler: Resampler, space, by_range: bool) -> Statistics:
    groups = {"all": np.ones(len(block.rows), bool)}
    groups |= {name: block.range == k for k, name in enumerate(space.names) if by_range}
    if block.kinds:
        edges = [last for _, last in space.bounds[:-1]]
        boundary = np.isin(block.value, edges) | np.isin(block.value - 1, edges)
        groups |= {**block.kinds, "pattern=boundary": boundary}
    out: Statistics = {}
    for name, method in block.methods.items():
        for (group, metric), statistic in _accuracies(block, method, groups, resampler).items():
            out[name, group, metric] = statistic
        for group, mask in groups.items():
            out |= _macro_f1(name, group, block, method, mask & method.there, resampler, space)
            if group == "all" or not by_range:
                mask = mask & method.there
                out[name, group, "range_macro_f1"] = resampler.macro_f1(block.range, method.predicted_range, mask)
        if method.routes:
            out[name, "all", "router_macro_f1"] = resampler.macro_f1(block.range, method.router_range, method.there)
    return out


def _accuracies(block: Block, method: Method, groups: dict, resampler: Resampler) -> dict:
    hits = {
        "value_accuracy": method.predicted_value == block.value,
        "range_accuracy": method.predicted_range == block.range,
    }
    right = method.router_range == block.range
    wanted = [(group, metric, mask, hit) for metric, hit in hits.items() for group, mask in groups.items()]
    if method.routes:
        wanted += [(group, "router_accuracy", mask, right) for group, mask in groups.items()]
        for metric, hit in hits.items():
            wanted += [("route=right", metric, right, hit), ("route=wrong", metric, ~right, hit)]
    wanted = [(group, metric, mask & method.there, hit) for group, metric, mask, hit in wanted]
    numerators = np.column_stack([mask & hit for _, _, mask, hit in wanted])
    denominators = np.column_stack([mask for _, _, mask, _ in wanted])
    ratios = resampler.ratio(numerators, denominators)
    return {(group, metric): ratio for (group, metric, _, _), ratio in zip(wanted, ratios, strict=True)}


def _macro_f1(name, group, block: Block, method: Method, mask, resampler: Resampler, space) -> Statistics:
    f1 = resampler.macro_f1(block.value, method.predicted_value, mask)
    present = np.array([len(np.unique(block.value[mask & (block.seeds == s)])) for s in resampler.seeds])
    share = present / space.C  # a label that never occurs has F1 0, so this is the most that F1 over C labels can be
    ceiling = Statistic(
        value=np.where(f1.rows > 0, share, np.nan),
        draws=np.repeat(share[:, None], resampler.resamples, 1),
        rows=f1.rows,
        clusters=f1.clusters,
        distinct=f1.distinct,
        seed=f1.seed,
        ceiling=share,
    )
    over_all = f"macro_f1_{space.C}"
    return {
        (name, group, "macro_f1"): f1,
        (name, group, over_all): f1.scaled(share),
        (name, group, f"{over_all}_ceiling"): ceiling,
    }


def _row(where: tuple, method: str, seed, group: str, metric: str, estimate: Estimate) -> tuple:
    if metric.endswith("_ceiling"):  # a fact about the rows, no estimate
        return (*where, method, str(seed), group, metric, estimate.value, estimate.n, np.nan, np.nan)
    return (*where, method, str(seed), group, metric, estimate.value, estimate.n, estimate.low, estimate.high)


def _metric_rows(where: tuple, statistics: Statistics, seeds: np.ndarray) -> list[tuple]:
    rows = []
    for (method, group, metric), statistic in statistics.items():
        estimates = [(seed, statistic.of_seed(i)) for i, seed in enumerate(seeds)]
        estimates.append(("all", statistic.overall()))
        rows += [_row(where, method, seed, group, metric, e) for seed, e in estimates if e.n]
    return rows


def _difference_rows(where: tuple, statistics: Statistics, reference: str) -> list[tuple]:
    rows = []
    for (method, group, metric), statistic in statistics.items():
        if method != reference and metric in COMPARED and not group.startswith("route="):
            below = (statistics[reference, group, metric] - statistic).overall()
            if below.n:
                rows.append(_row(where, method, "all", group, f"{metric}_below_{reference}", below))
    return rows


def _mcnemar_rows(where: tuple, block: Block, reference: str) -> list[tuple]:
    """One row a structure: a seed's own first row of each; over seeds, the first seed that holds the structure."""
    rows = []
    ours = block.methods[reference]
    for name, method in block.methods.items():
        both = method.there & ours.there
        if name == reference or not both.any():
            continue
        for seed in (*np.unique(block.seeds[both]), "all"):
            items = np.flatnonzero(both if seed == "all" else both & (block.seeds == seed))
            items = items[np.unique(block.structures[items], return_index=True)[1]]
            truth = block.value[items]
            test = mcnemar(ours.predicted_value[items] == truth, method.predicted_value[items] == truth)
            for metric, value in (
                (f"mcnemar_p_{reference}", test.p),
                (f"mcnemar_only_{reference}", test.only_a),
                ("mcnemar_only_method", test.only_b),
            ):
                rows.append((*where, name, str(seed), "all", metric, float(value), test.n, np.nan, np.nan))
    return rows


def _gap_rows(task: str, definition: str, kept: dict) -> list[tuple]:
    rows = []
    for (split, recipe, part), statistics in kept.items():
        other = kept.get(("structure", recipe, part))
        if split != "text" or other is None:
            continue
        where = (task, variant(definition, recipe), "text-structure", part)
        for (method, group, metric), statistic in statistics.items():
            if metric.endswith("_accuracy") and not group.startswith("route=") and (method, group, metric) in other:
                gap = unpaired_difference(statistic, other[method, group, metric])
                rows.append(_row(where, method, "all", group, f"{metric}_gap", gap))
    return rows
