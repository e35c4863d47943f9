"""What was found that the source does not report: sentences that the record's rows complete."""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from redlib.results import cell, difference, pick

FOUND = ("section", "finding", "notebook")
AT = {"seed": "all", "part": "test", "group": "all"}
UNSEEN, CHAINS = "structure", "operations/chosen"
Tables = Mapping[str, pd.DataFrame]


def beyond(tables: Tables) -> pd.DataFrame:
    """Sentences on sums, controls, routing, chains and `red_plus` (columns FOUND), each with its numbers; those whose
    table or rows are not on record are left out."""
    found = []
    for what, notebook, table, say in _QUESTIONS:
        if table in tables:
            try:
                found.append((what, say(tables[table]), notebook))
            except LookupError:
                continue
    return pd.DataFrame(found, columns=list(FOUND))


def _gap(rows: pd.DataFrame) -> str:
    row = pick(rows, **AT, variant="chosen", split="text-structure", method="red", metric="value_accuracy_gap")
    return difference(row, "RED's value accuracy on sums that training has seen", "that on sums it has not seen")


def _against(method: str, other: str, metric: str = "value_accuracy") -> Callable[[pd.DataFrame], str]:
    def say(rows: pd.DataFrame) -> str:
        name = f"{metric}_below_red"
        row = pick(rows, **AT, variant="chosen", split=UNSEEN, method=method, metric=name)
        return difference(row, f"on unseen sums RED's {metric.replace('_', ' ')}", other)

    return say


def _reach(rows: pd.DataFrame) -> str:
    value, reach = (
        pick(rows, **AT, variant="chosen", split=UNSEEN, method="red", metric=name)
        for name in ("value_accuracy", "range_accuracy")
    )
    return f"on unseen sums RED has the right range in {cell(reach)} and the right value in {cell(value)}"


def _wrong(rows: pd.DataFrame) -> str:
    at = AT | {"group": "route=wrong"}
    row = pick(rows, **at, variant="chosen", split=UNSEEN, method="red", metric="value_accuracy")
    return f"of the unseen sums that the router sends to a wrong expert, RED gets {cell(row, n=True)} right"


def _chains(rows: pd.DataFrame) -> str:
    row = pick(rows, **AT, variant=CHAINS, split=UNSEEN, method="fourier_full_data", metric="value_accuracy_below_red")
    return difference(row, "on unseen chains RED's value accuracy", "that of a Fourier readout of the same features")


def _lengths(rows: pd.DataFrame) -> str:
    one, several = (
        pick(
            rows,
            **AT | {"group": name},
            variant="single_heavy/chosen",
            split="text",
            method="red",
            metric="value_accuracy",
        )
        for name in ("ops=1", "ops>1")
    )
    return (
        "where most chains have one operation (split `text`), RED gets the value right in "
        f"{cell(one)} of these and in {cell(several)} of the longer ones"
    )


def _steps(rows: pd.DataFrame) -> str:
    at = AT | {"variant": "closed/gold", "split": UNSEEN, "method": "red", "metric": "value_accuracy"}
    known, new = (pick(rows, **at | {"group": f"unseen={name}"}) for name in ("none", "all"))
    return (
        f"given the steps, RED has the value of {cell(known)} of the programs without a new step right, and of "
        f"{cell(new)} of those that have new ones alone"
    )


def _plus(task: str, what: str, method: str, other: str) -> Callable[[pd.DataFrame], str]:
    def say(rows: pd.DataFrame) -> str:
        row = pick(rows, **AT, task=task, split=UNSEEN, method=method, metric="value_accuracy_below_red_plus")
        return difference(row, f"on unseen {what} the value accuracy of RED over a base of circles", other)

    return say


def _longer(rows: pd.DataFrame) -> str:
    row = pick(rows, **AT, variant="longer/chosen", method="red_plus", metric="value_accuracy")
    who = "trained on two to four operations, RED over a base of circles"
    return f"{who} gets {cell(row, n=True)} of the chains of five and six right"


def _questions() -> Iterator[tuple[str, str, str, Callable[[pd.DataFrame], str]]]:
    mlp, linear = "that of a plain network of its size", "that of its experts mixed as logits"
    yield "memory", "08_task1_results", "task1", _gap
    yield "memory", "08_task1_results", "task1", _reach
    yield "controls", "08_task1_results", "task1", _against("mlp_full_data", mlp)
    yield "controls", "08_task1_results", "task1", _against("fourier_full_data", "that of a Fourier readout")
    yield "what the sum is", "10_fair_comparison", "task1", _against("moe_same_experts", linear)
    yield "what the sum is", "04_oracle_experts", "task1", _against("oracle_experts", "that of oracle experts")
    yield "routing", "11_routing", "task1", _against("top1", "that of RED with its first choice only")
    yield "routing", "11_routing", "task1", _wrong
    yield "chains", "09_task2_results", "task2", _chains
    yield "chains", "09_task2_results", "task2", _lengths
    yield "chains", "17_modular_execution", "execution", _steps
    own, base = "20_red_plus", "that of its base alone"
    for task, what in (("task1", "sums"), ("task2", "chains")):
        yield "our own form", own, "red_plus", _plus(task, what, "red", "that of RED")
        yield "our own form", own, "red_plus", _plus(task, what, "red_plus_base", base)
    yield "our own form", own, "red_plus_beyond", _longer


_QUESTIONS = tuple(_questions())
