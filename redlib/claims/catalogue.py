"""Every claim of the source in one form: what it says in our words, what was reported, and how it is judged.

Numbers come from data/claims.csv, sentences and contradictions from data/claims_words.csv. A rule is one of
`equal x`, `within x` (x lies in our interval), `above x`, `below x` on the rows that are named; `finding judge: claim`
of a chapter, or `against judge: claim` where that denies it; `arithmetic name` on the source's own words; `none why`,
for what cannot be tested here.
"""

import pandas as pd

from redlib import paths
from redlib.claims.reported import METHODS, METRICS, load

KINDS = ("number", "sentence", "contradiction")
DESCRIBED = ("claim_id", "document", "section", "kind", "words", "reported", "table", "rows", "rule", "otherwise")
FAILED = ("not reproduced", "contradicted")  # what a test that fails says of its claim
DOCUMENTS = ("main", "complexity", "sparse", "nested", "savings")
NAMES = {
    "global_head": "the global head",
    "uniform_average": "uniform averaging",
    "all_fixed": "AllFix, equal weights",
    "softmax_moe": "the softmax mixture",
    "moe_no_residual": "the mixture, no residual path",
    "red": "RED",
    "red_router": "RED's router",
    "red_5_experts": "RED with five experts",
    "red_2_experts": "RED with two experts",
}
PLACES = {"task1": "on Task 1", "task2": "on Task 2", "decomposed": "executing programs", "case_study": "asked"}
OF_COST = {  # numbers of cost that a chapter's finding judges
    "4.10.1-01": "experts are one to two orders of magnitude smaller (4.10, 99 classes)",
    "4.10.2-01": "the router costs next to nothing",
    "4.10.3-01": "training fits",
}
ELSEWHERE = "measured on another machine, with models that are not at hand"


def described() -> pd.DataFrame:
    """All claims, one a row: columns DESCRIBED, all text; `table` names the tables that are read, by spaces.

    ValueError for a claim_id that is double or a file with other columns than these.
    """
    numbers = pd.DataFrame([_number(claim) for claim in load().to_dict("records")])
    frame = pd.concat([numbers, _words()], ignore_index=True)[list(DESCRIBED)]
    double = frame["claim_id"].duplicated()
    if double.any():
        raise ValueError(f"claim {frame['claim_id'][double].iloc[0]!r} is described twice")
    return frame


def _words() -> pd.DataFrame:
    """The sentences and contradictions."""
    file = paths.root() / "data" / "claims_words.csv"
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    if tuple(frame.columns) != DESCRIBED:
        raise ValueError(f"{file.name} must have the columns {', '.join(DESCRIBED)}, it has {', '.join(frame.columns)}")
    for column, valid in (("kind", KINDS[1:]), ("document", DOCUMENTS), ("otherwise", ("", *FAILED))):
        wrong = ~frame[column].isin(valid)
        if wrong.any():
            claim = frame[wrong].iloc[0]
            raise ValueError(f"claim {claim['claim_id']!r} has {column} {claim[column]!r}; valid: {', '.join(valid)}")
    return frame


def _number(claim: dict) -> dict:
    """A reported number as a claim: `otherwise` is left to the rule, which knows above from below."""
    document, _, _ = claim["section"].partition(".")
    document = document if document in DOCUMENTS else "main"
    table, rows, rule = _judged_by(claim)
    about = {name: claim[name] for name in ("claim_id", "section", "reported")}
    judged = {"table": table, "rows": rows, "rule": rule, "otherwise": FAILED[claim["claim_id"] in OF_COST]}
    return {**about, "document": document, "kind": "number", "words": _in_words(claim), **judged}


def _in_words(claim: dict) -> str:
    who = NAMES.get(claim["method"], claim["method"].replace("_", " "))
    group = "" if claim["group"] == "all" else f", {claim['group'].replace('_', ' ')}"
    place = PLACES.get(claim["task"], "")
    return f"{claim['metric'].replace('_', ' ')} of {who}{f' {place}' if place else ''}{group}"


def _judged_by(claim: dict) -> tuple[str, str, str]:
    """(table, rows, rule) of a reported number."""
    number, section = claim["reported"], claim["section"]
    if claim["claim_id"] in OF_COST:
        return "", "", f"finding cost: {OF_COST[claim['claim_id']]}"
    if section == "4.7.4":
        return "", "", f"finding kinds: {claim['claim_id']}"
    if section == "4.9.3":
        return "", "", f"finding ranks: {claim['claim_id']}"
    if claim["task"] == "case_study":
        return "cases", *_case(claim)
    if claim["task"] in ("task1", "task2"):
        return claim["task"], *_accuracy(claim, claim["group"], f"equal {number}")
    if claim["task"] == "decomposed":
        group = claim["group"]
        group = group if group == "all" else f"ops={group.removesuffix('_step')}"
        return "execution", *_accuracy(claim, group, f"equal {number}")
    if section == "sparse.results":
        return "", "", f"none {ELSEWHERE}"
    return "", "", f"arithmetic {'of_its_table' if claim['task'] == 'sparse' else 'of_its_formula'}"


def _accuracy(claim: dict, group: str, rule: str) -> tuple[str, str]:
    part = "test"
    if claim["method"] == "red_router":
        part, group = group, "all"
    if claim["metric"] == "accuracy_at_least":
        methods, metrics, rule = ("red",), METRICS["accuracy"], f"above {claim['reported']}"
    else:
        methods, metrics = METHODS[claim["method"]], METRICS[claim["metric"]]
    return f"method={' | '.join(methods)}; metric={' | '.join(metrics)}; group={group}; part={part}", rule


def _case(claim: dict) -> tuple[str, str]:
    """A case study (4.11): a value is said by most seeds, a weight lies in the interval over seeds. The experts had
    seen additions alone, it says; a question with two operations is read with those of Task 2 too."""
    question = claim["group"]
    task = "task1" if question.count("plus") + question.count("minus") == 1 else "task1 | task2"
    of_value = claim["metric"] == "value"
    metric = "value_accuracy" if of_value else claim["metric"]
    rule = "above 0.5" if of_value else f"within {claim['reported']}"
    return f"task={task}; method=red; metric={metric}; group={question}", rule
