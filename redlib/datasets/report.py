"""Checks of a pool and its splits as tables, and the arithmetic of what such a pool can and cannot be."""

from collections.abc import Mapping
from itertools import combinations

import pandas as pd

from redlib.config import PARTS
from redlib.datasets.pool import TASKS
from redlib.expressions import SOURCE_LABELS, SOURCE_OPERANDS, LabelSpace, additions
from redlib.phrasing import parse

# metric -> the column of the pool whose distinct entries it counts
UNITS = {"texts": "text", "expressions": "expression", "structures": "structure", "templates": "template"}


def report(
    pool: pd.DataFrame, parts_by_split: Mapping[str, pd.Series], labels: LabelSpace = SOURCE_LABELS
) -> pd.DataFrame:
    """The check report, tidy: `split, part, group, metric, value` with group "all" or a range name.

    Split "pool", part "all": rows; distinct texts, expressions (ordered pairs), structures (unordered pairs),
    templates and values; `duplicate_texts`; `wrong_labels` (read again from the text); `imbalance` (largest less
    smallest range). The same for every part of every split, and for each two parts, e.g. "train & test": `shared_*`,
    the distinct units found in both, `seen_*`, the share of the second part's rows whose unit is in the first, and
    `unseen_values`. Raises ValueError when the parts belong to another pool.
    """
    codes = pd.DataFrame({metric: pd.factorize(pool[column])[0] for metric, column in UNITS.items()})
    labelled = {"values": pool["value"].to_numpy(), "group": pool["range"].to_numpy()}
    codes = codes.assign(**labelled, wrong=_wrong_labels(pool, labels))
    records: list[tuple] = []
    for split, parts in {"pool": pd.Series("all", index=pool.index), **parts_by_split}.items():
        if not parts.index.equals(pool.index):
            raise ValueError(f"the parts of split {split!r} do not belong to this pool: their rows differ")
        names = [part for part in ("all", *PARTS) if (parts == part).any()]
        by_part = {part: _by_group(codes[(parts == part).to_numpy()], labels) for part in names}
        for part, groups in by_part.items():
            records += [(split, part, group, *m) for group, rows in groups.items() for m in _contents(rows)]
            sizes = [len(groups[name]) for name in labels.names]
            records.append((split, part, "all", "imbalance", max(sizes) - min(sizes)))
        for one, two in combinations(names, 2):
            for group, rows in by_part[one].items():
                measured = _overlap(rows, by_part[two][group])
                records += [(split, f"{one} & {two}", group, *m) for m in measured]
    return pd.DataFrame(records, columns=["split", "part", "group", "metric", "value"]).astype({"value": float})


def _wrong_labels(pool: pd.DataFrame, labels: LabelSpace) -> list[bool]:
    rows = zip(map(parse, pool["text"]), pool["value"], pool["range"], strict=True)
    return [read.value != value or labels.range_of(value) != range_ for read, value, range_ in rows]


def _by_group(codes: pd.DataFrame, labels: LabelSpace) -> dict[str, pd.DataFrame]:
    return {"all": codes} | {name: codes[codes["group"] == k] for k, name in enumerate(labels.names)}


def _contents(rows: pd.DataFrame) -> list[tuple[str, float]]:
    distinct = [(metric, rows[metric].nunique()) for metric in (*UNITS, "values")]
    duplicates = len(rows) - rows["texts"].nunique()
    return [("rows", len(rows)), *distinct, ("duplicate_texts", duplicates), ("wrong_labels", rows["wrong"].sum())]


def _overlap(first: pd.DataFrame, second: pd.DataFrame) -> list[tuple[str, float]]:
    measured = []
    for metric in UNITS:
        known = second[metric].isin(first[metric].unique())
        measured += [(f"shared_{metric}", second.loc[known, metric].nunique()), (f"seen_{metric}", known.mean())]
    return [*measured, ("unseen_values", len(set(second["values"]) - set(first["values"])))]


def budget(
    rows: int = 80_000, operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS
) -> pd.DataFrame:
    """What the domain holds against what `rows` balanced additions need: one line a range (index) and "all".

    values, reachable_values (sums that occur), ordered_pairs, unordered_pairs; rows (balanced) and rows_if_uniform
    (expected when operands are drawn uniformly and nothing is resampled); texts_per_ordered_pair and
    texts_per_unordered_pair that the balanced rows need; deduplicated (one text an ordered pair) and
    deduplicated_balanced; macro_f1_ceiling over all C labels (reachable values / C).
    """
    strata = additions(operands, labels)
    total = sum(map(len, strata))
    lines = {}
    for name, (first, last), expressions in zip(labels.names, labels.bounds, strata, strict=True):
        lines[name] = {
            "values": last - first + 1,
            "reachable_values": len({e.value for e in expressions}),
            "ordered_pairs": len(expressions),
            "unordered_pairs": len({e.structure_key for e in expressions}),
            "rows": rows / labels.K,
            "rows_if_uniform": rows * len(expressions) / max(1, total),
            "deduplicated": len(expressions),
            "deduplicated_balanced": min(map(len, strata)),
        }
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.loc["all"] = table.sum()
    table.insert(6, "texts_per_ordered_pair", table["rows"] / table["ordered_pairs"])
    table.insert(7, "texts_per_unordered_pair", table["rows"] / table["unordered_pairs"])
    table["macro_f1_ceiling"] = table["reachable_values"] / labels.C
    whole = ["values", "reachable_values", "ordered_pairs", "unordered_pairs", "deduplicated", "deduplicated_balanced"]
    return table.astype(dict.fromkeys(whole, "int64")).rename_axis("range")


def conflicts(
    rows: int = 80_000, operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS
) -> pd.DataFrame:
    """Why `rows` de-duplicated, uniform and balanced additions with disjoint pairs cannot all hold.

    One line a combination: `together` (what is asked), `wanted`, `available`, `holds`, all computed from `budget`.
    """
    table = budget(rows, operands, labels)
    ranges, everything = table.drop(index="all"), table.loc["all"]
    smallest = ranges["ordered_pairs"].idxmin()
    uniform = ranges["rows_if_uniform"]
    pairs = int(table.loc[smallest, "ordered_pairs"])
    texts = float(table.loc[smallest, "texts_per_ordered_pair"])
    lines = [
        ("one text an ordered pair: rows", rows, everything["deduplicated"]),
        ("one text an ordered pair, balanced: rows", rows, everything["deduplicated_balanced"]),
        ("one text an unordered pair: rows", rows, everything["unordered_pairs"]),
        (f"operands drawn uniformly, balanced: rows in {uniform.idxmin()}", rows / labels.K, round(uniform.min())),
        (f"pairs disjoint, one row a pair: test rows in {smallest}", rows / labels.K // 10, pairs // 10),
        (f"balanced, pairs repeat: texts of an ordered pair in {smallest}, on average", texts, len(TASKS["task1"])),
    ]
    made = pd.DataFrame(lines, columns=["together", "wanted", "available"])
    made = made.astype({"wanted": float, "available": float})
    return made.assign(holds=made["wanted"] <= made["available"])
