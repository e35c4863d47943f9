"""Verdicts on what the source concludes from its ablations (4.9) and says of its experts' rows (4.5.2), and its numbers
beside ours."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.judging import (
    FAILS,
    Finding,
    apart,
    as_frame,
    behind,
    judge,
    reaches,
    reported,
    together,
    worst,
)
from redlib.claims.reported import METRICS, load
from redlib.results import cell, pick, select

TASKS = ("task1", "task2")
MOE = "arm=softmax_moe"
ROUNDING = 1e-3  # of rows: what rounding may decide where two values are as good as tied
CLOSE = 0.02  # how far another number of experts may lie below RED's own and still be called not critical
TABLES = {"4.9.1": "residual", "4.9.3": "rank"}
DROPS = {"task1": ("4.9.3-01", "4.9.3-05"), "task2": ("4.9.3-02", "4.9.3-06")}  # its accuracy at d/2 and at d/8


def ablation_verdicts(
    frame: pd.DataFrame, d: int, rank: int, experts: int, split: str = "structure", numbers: bool = False
) -> pd.DataFrame:
    """Whether each conclusion of 4.9 holds on one split, both tasks, and that of 4.5.2 on fewer rows by task: columns
    section, claim, test, measured, verdict, with `numbers` those of a Finding.

    frame: the table ablations; d: hidden size; rank and experts: RED's own. A conclusion on a question that the table
    does not have is left out. LookupError for missing rows of a question that it has.
    """
    rows = select(frame, split=split, seed="all")
    asked = set(rows["question"])
    found: list[Finding] = []
    found += _coverage(select(rows, question="expert_share")) if "expert_share" in asked else []
    found += _residual(select(rows, question="residual")) if "residual" in asked else []
    found += _experts(select(rows, question="experts"), experts) if "experts" in asked else []
    found += _ranks(select(rows, question="rank"), d, rank) if "rank" in asked else []
    found += _causes(rows) if {"residual", "expert_share"} <= asked else []
    return as_frame(found, numbers).sort_values("section", kind="stable", ignore_index=True)


def ablations_beside(frame: pd.DataFrame, d: int, rank: int) -> pd.DataFrame:
    """The numbers of 4.9.1 and 4.9.3 beside ours: claim_id, task, system, reported, split, metric, measured, low, high,
    n, verdict (is our accuracy at least as high). The source never says which accuracy it means, so both stand here.
    """
    lines = []
    for claim in load().query("section in @TABLES").to_dict("records"):
        question = TABLES[claim["section"]]
        plain = "nothing" if claim["method"] == "red" else MOE
        changed = _of_rank(claim["group"], d, rank) if question == "rank" else plain
        rows = frame[(frame["question"] == question) & (frame["changed"] == changed) & (frame["seed"] == "all")]
        for row in rows[(rows["task"] == claim["task"]) & rows["metric"].isin(METRICS["accuracy"])].to_dict("records"):
            system = claim["group"] if question == "rank" else {"red": "RED"}.get(claim["method"], "MoE (no residual)")
            about = {"claim_id": claim["claim_id"], "task": claim["task"], "system": system}
            ours = {name: row[name] for name in ("split", "metric")} | {"measured": row["value"]}
            verdict = judge(row["low"], row["high"], claim["number"])
            rest = {name: row[name] for name in ("low", "high", "n")}
            lines.append({**about, "reported": claim["number"], **ours, **rest, "verdict": verdict})
    return pd.DataFrame(lines)


def _of_rank(group: str, d: int, rank: int) -> str:
    """`rank=d/2` as the table says it: the rank, or nothing where that is RED's own."""
    own = d // int(group.partition("/")[2])
    return "nothing" if own == rank else f"rank={own}"


def _change(rows: pd.DataFrame, task: str, changed: str, reference: str = "") -> pd.Series:
    """The paired change of value accuracy by one setting, against RED as it is or the variant named."""
    own = pick(rows, task=task, changed="nothing", metric="value_accuracy")["variant"]
    return pick(rows, task=task, changed=changed, metric="value_accuracy_change", reference=reference or own)


def _both(changes: dict[str, pd.Series]) -> str:
    return "; ".join(f"{task}: {cell(row)}" for task, row in changes.items())


def _share(changed: str) -> float:
    """0.5 of `base_share=0.5`."""
    return float(changed.partition("=")[2])


def _shares(rows: pd.DataFrame, task: str) -> dict[str, pd.Series]:
    """The changes of one task by other shares of the rows, the smallest first."""
    names = sorted(set(rows["changed"]) - {"nothing"}, key=_share)
    return {f"{_share(name):.0%}": _change(rows, task, name) for name in names}


def _all(changes: dict[str, pd.Series], border: float = 0.0, sign: int = 1) -> tuple[str, dict[str, float]]:
    """Whether every change lies above the border, with sign -1 whether it falls by more than it; and the number of the
    worst one."""
    ends = {name: sorted((sign * row["low"], sign * row["high"])) for name, row in changes.items()}
    verdict = together(judge(low, high, border) for low, high in ends.values())
    return verdict, behind(min(changes.values(), key=lambda row: sign * row["value"]))


def _coverage(rows: pd.DataFrame) -> Iterator[Finding]:
    """4.5.2: what experts of ranges lose with fewer rows, by task."""
    for task in TASKS:
        changes = _shares(rows, task)
        verdict, number = _all(changes, sign=-1)
        test = f"on {task}, experts trained on any smaller share of the rows lie below those that see all"
        yield Finding("4.5.2", f"range experts benefit from all rows, {task}", test, _both(changes), verdict, **number)


def _residual(rows: pd.DataFrame) -> Iterator[Finding]:
    moe = {task: _change(rows, task, MOE) for task in TASKS}
    gaps = {"task1": reported("4.9.1-02") - reported("4.9.1-01"), "task2": reported("4.9.1-04") - reported("4.9.1-03")}
    fall = {
        task: pd.Series({"value": -row["value"], "low": -row["high"], "high": -row["low"]}) for task, row in moe.items()
    }
    found = [reaches(row, gaps[task]) for task, row in fall.items()]
    verdict, beyond = together(verdict for verdict, _ in found), all(beyond for _, beyond in found)
    least = min(TASKS, key=lambda task: fall[task]["value"] - gaps[task])
    test = (
        f"RED minus the mixture is not measurably below {gaps['task1']:.3f} (Task 1) and {gaps['task2']:.3f} (Task 2)"
    )
    claim = "without the residual path accuracy falls as far as reported"
    yield Finding("4.9.1", claim, test, _both(moe), verdict, **behind(moe[least]), beyond=beyond)
    same = {task: _change(rows, task, "mixing=logits") for task in TASKS}
    verdict, number = _all(same, sign=-1)
    verdict = FAILS if all(abs(row["value"]) < ROUNDING for row in same.values()) else verdict
    test = "the same experts and weights, mixed as logits, lie below RED"
    claim = "keeping all experts identical, the residual path is what matters"
    yield Finding("4.9.1", claim, test, _both(same), verdict, **number)
    never = {task: _change(rows, task, "arm=base_never") for task in TASKS}
    verdict, number = _all(never, sign=-1)
    test = "experts that are trained and used without h in the sum lie below RED"
    for section, claim in {"4.9.1": "the residual path is essential", "4.9.5": "residual routing is necessary"}.items():
        yield Finding(section, claim, test, _both(never), verdict, **number)


def _experts(rows: pd.DataFrame, own: int) -> Iterator[Finding]:
    changed = sorted(set(rows["changed"]) - {"nothing"}, key=lambda name: int(name.partition("=")[2]))
    changes = {f"{task}, {name}": _change(rows, task, name) for task in TASKS for name in changed}
    measured = _both(changes)
    verdict, number = _all(changes, -CLOSE)
    test = f"no other number of experts lies more than {CLOSE:g} below {own}"
    yield Finding("4.9.2", "the number of experts is not critical", test, measured, verdict, **number)
    verdict, number = _all(changes, sign=-1)
    test = f"every other number lies below {own}"
    yield Finding("4.9.5", "five experts are best", test, measured, verdict, **number)


def _ranks(rows: pd.DataFrame, d: int, rank: int) -> Iterator[Finding]:
    small, large = (_of_rank(f"rank=d/{share}", d, rank) for share in (8, 2))
    losses, stated = {}, {}
    for task in TASKS:
        first, last = DROPS[task]
        stated[task] = reported(first) - reported(last)
        top = pick(rows, task=task, changed=large, metric="value_accuracy")["variant"]
        losses[task] = _change(rows, task, small, top)
    verdict = together(judge(row["low"], row["high"], -stated[task]) for task, row in losses.items())
    least = min(TASKS, key=lambda task: losses[task]["value"] + stated[task])
    test = f"d/8 lies no more than {stated['task1']:.3f} (Task 1) and {stated['task2']:.3f} (Task 2) below d/2"
    for section, claim in {
        "4.9.3": "RED remains stable at very low rank",
        "4.9.5": "low-rank adapters are sufficient",
    }.items():
        yield Finding(section, claim, test, _both(losses), verdict, **behind(losses[least]))
    verdict, number = _all(losses, sign=-1)
    yield Finding("4.9.3", "accuracy falls as the rank falls", "d/8 lies below d/2", _both(losses), verdict, **number)


def _causes(rows: pd.DataFrame) -> Iterator[Finding]:
    data = select(rows, question="expert_share")
    share = max(set(data["changed"]) - {"nothing"}, key=_share)
    gaps, said = [], []
    for task in TASKS:
        moe, less = _change(select(rows, question="residual"), task, MOE), _change(data, task, share)
        gaps.append(apart(less, moe))
        said.append(f"{task}: mixture {cell(moe)}, fewer rows {cell(less)}, difference {cell(gaps[-1])}")
    test = f"going to the mixture costs more than training the experts on {_share(share):.0%} of the rows"
    verdict = together(judge(gap["low"], gap["high"]) for gap in gaps)
    claim = "architecture, not data volume, explains the gain"
    yield Finding("4.9.5", claim, test, "; ".join(said), verdict, **behind(worst(gaps)))
