"""Verdicts on what the source concludes from its ablations (4.9), and its numbers beside ours."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, OPEN, VERDICT, judge, reported, together
from redlib.claims.reported import METRICS, load
from redlib.results import cell, pick, select

TASKS = ("task1", "task2")
MOE = "arm=softmax_moe"
ROUNDING = 1e-3  # of rows: what rounding may decide where two values are as good as tied
CLOSE = 0.02  # how far another number of experts may lie below RED's own and still be called not critical
TABLES = {"4.9.1": "residual", "4.9.3": "rank"}
DROPS = {"task1": ("4.9.3-01", "4.9.3-05"), "task2": ("4.9.3-02", "4.9.3-06")}  # its accuracy at d/2 and at d/8


def ablation_verdicts(frame: pd.DataFrame, d: int, rank: int, experts: int, split: str = "structure") -> pd.DataFrame:
    """Whether each conclusion of 4.9 holds on one split, both tasks: columns section, claim, test, measured, verdict.

    frame: the table ablations; d: hidden size; rank and experts: RED's own. A conclusion on a question that the table
    does not have is left out. LookupError for missing rows of a question that it has.
    """
    rows = select(frame, split=split, seed="all")
    asked = set(rows["question"])
    found: list[tuple] = []
    found += _residual(select(rows, question="residual")) if "residual" in asked else []
    found += _experts(select(rows, question="experts"), experts) if "experts" in asked else []
    found += _ranks(select(rows, question="rank"), d, rank) if "rank" in asked else []
    found += _causes(rows) if {"residual", "expert_share"} <= asked else []
    return pd.DataFrame(found, columns=VERDICT).sort_values("section", kind="stable", ignore_index=True)


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


def _residual(rows: pd.DataFrame) -> Iterator[tuple]:
    moe = {task: _change(rows, task, MOE) for task in TASKS}
    gaps = {"task1": reported("4.9.1-01") - reported("4.9.1-02"), "task2": reported("4.9.1-03") - reported("4.9.1-04")}
    verdict = together(judge(-row["high"], -row["low"], -gaps[task]) for task, row in moe.items())
    test = f"the mixture lies at least {-gaps['task1']:.3f} (Task 1) and {-gaps['task2']:.3f} (Task 2) below RED"
    yield "4.9.1", "without the residual path accuracy falls as far as reported", test, _both(moe), verdict
    same = {task: _change(rows, task, "mixing=logits") for task in TASKS}
    verdict = together(judge(-row["high"], -row["low"]) for row in same.values())
    verdict = FAILS if all(abs(row["value"]) < ROUNDING for row in same.values()) else verdict
    test = "the same experts and weights, mixed as logits, lie below RED"
    yield "4.9.1", "keeping all experts identical, the residual path is what matters", test, _both(same), verdict
    never = {task: _change(rows, task, "arm=base_never") for task in TASKS}
    verdict = together(judge(-row["high"], -row["low"]) for row in never.values())
    test = "experts that are trained and used without h in the sum lie below RED"
    for section, claim in {"4.9.1": "the residual path is essential", "4.9.5": "residual routing is necessary"}.items():
        yield section, claim, test, _both(never), verdict


def _experts(rows: pd.DataFrame, own: int) -> Iterator[tuple]:
    changed = sorted(set(rows["changed"]) - {"nothing"}, key=lambda name: int(name.partition("=")[2]))
    changes = {f"{task}, {name}": _change(rows, task, name) for task in TASKS for name in changed}
    measured = _both(changes)
    verdict = together(judge(row["low"], row["high"], -CLOSE) for row in changes.values())
    test = f"no other number of experts lies more than {CLOSE:g} below {own}"
    yield "4.9.2", "the number of experts is not critical", test, measured, verdict
    verdict = together(judge(-row["high"], -row["low"]) for row in changes.values())
    yield "4.9.5", "five experts are best", f"every other number lies below {own}", measured, verdict


def _ranks(rows: pd.DataFrame, d: int, rank: int) -> Iterator[tuple]:
    small, large = (_of_rank(f"rank=d/{share}", d, rank) for share in (8, 2))
    losses, stated = {}, {}
    for task in TASKS:
        first, last = DROPS[task]
        stated[task] = reported(first) - reported(last)
        top = pick(rows, task=task, changed=large, metric="value_accuracy")["variant"]
        losses[task] = _change(rows, task, small, top)
    verdict = together(judge(row["low"], row["high"], -stated[task]) for task, row in losses.items())
    test = f"d/8 lies no more than {stated['task1']:.3f} (Task 1) and {stated['task2']:.3f} (Task 2) below d/2"
    for section, claim in {
        "4.9.3": "RED remains stable at very low rank",
        "4.9.5": "low-rank adapters are sufficient",
    }.items():
        yield section, claim, test, _both(losses), verdict
    verdict = together(judge(-row["high"], -row["low"]) for row in losses.values())
    yield "4.9.3", "accuracy falls as the rank falls", "d/8 lies below d/2", _both(losses), verdict


def _causes(rows: pd.DataFrame) -> Iterator[tuple]:
    data = select(rows, question="expert_share")
    share = max((name for name in set(data["changed"]) - {"nothing"}), key=lambda name: float(name.partition("=")[2]))
    verdicts, said = [], []
    for task in TASKS:
        moe, less = _change(select(rows, question="residual"), task, MOE), _change(data, task, share)
        sure = moe["high"] < less["low"], moe["low"] > less["high"]
        verdicts.append(HOLDS if sure[0] else FAILS if sure[1] else OPEN)
        said.append(f"{task}: mixture {cell(moe)}, fewer rows {cell(less)}")
    test = (
        f"going to the mixture costs more than training the experts on {float(share.partition('=')[2]):.0%} of the rows"
    )
    yield "4.9.5", "architecture, not data volume, explains the gain", test, "; ".join(said), together(verdicts)
