"""What was found that the source does not report: sentences that the record's rows complete."""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from redlib.claims.cost import SOURCE
from redlib.claims.judges import LOW_BUDGET
from redlib.claims.nested import at
from redlib.claims.reported import load
from redlib.results import cell, difference, listed, pick, select

FOUND = ("section", "finding", "notebook")
AT = {"seed": "all", "part": "test", "group": "all"}
UNSEEN, CHAINS = "structure", "operations/chosen"
Tables = Mapping[str, pd.DataFrame]


def beyond(tables: Tables) -> pd.DataFrame:
    """Sentences on what the chapters measure beyond the source's own tables (columns FOUND), each with its numbers;
    those whose table or rows are not on record are left out."""
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


def _flips(rows: pd.DataFrame) -> str:
    here = {"task": "task1", "variant": "chosen", "split": UNSEEN, "group": "all", "operator": "addition"}
    row = pick(rows, **here, method="softmax_moe", metric="row_extra_flips_below_red")
    said = "in needless flips of the most probable range along rows of the operand map RED"
    return difference(row, said, "the mixture")


def _follow(rows: pd.DataFrame) -> str:
    words = {"units_digit": "the units digit", "tens_digit": "the tens digit", "range": "the range"}
    links = (f"{cell(pick(rows, metric='value_link', target=name))} for {said}" for name, said in words.items())
    return (
        "RED's value accuracy on unseen sums where a linear probe of its features is right, minus that where the probe "
        f"is wrong, is {listed(links)}"
    )


def _sharp(rows: pd.DataFrame) -> str:
    told = load().query("section == '4.11' and metric.str.startswith('alpha')").groupby("group")["number"].max()
    spread = select(rows, task="task1", variant="chosen", split=UNSEEN, metric="largest_at_most", seed="all")
    border = spread.loc[spread["x"] >= told.max(), "x"].min()
    most = max((row for _, row in select(spread, x=border).iterrows()), key=lambda row: row["value"])
    return (
        f"the largest routing weight is {border:g} or less (in the source's examples {told.min():g} to {told.max():g}) "
        f"in {cell(most)} of the unseen sums of {most['group']}, the most of any range"
    )


def _programs(rows: pd.DataFrame) -> str:
    exact = select(rows, seed="all", part="test", split=UNSEEN, metric="program_exact")
    steps = sorted(name for name in exact["group"].unique() if name.startswith("ops="))
    ways = {
        "planner_searched": "with a search among whole programs",
        "planner": "with the most probable word each time",
    }
    said = []
    for method, how in ways.items():
        few, many = (pick(exact, method=method, group=name) for name in (steps[0], steps[-1]))
        said.append(f"{how}, {cell(few)} of those of {_count(steps[0])} steps and {cell(many)} of {_count(steps[-1])}")
    return f"of the programs of unseen chains the planner writes exactly: {'; '.join(said)}"


def _count(group: str) -> str:
    return group.removeprefix("ops=")


def _one_expert(rows: pd.DataFrame) -> str:
    where = {"seed": "all", "group": "all", "split": UNSEEN, "variant": "chosen/same=rank", "method": "K=1"}
    row = pick(rows, **where, metric="value_accuracy_change")
    return difference(row, "with all texts, on unseen sums the value accuracy of one expert for all", "that of RED's")


def _fewer(rows: pd.DataFrame) -> str:
    where = {"task": "task1", "split": UNSEEN, "seed": "all", "question": "experts", "changed": "experts=1"}
    row = pick(rows, **where, metric="value_accuracy_change")
    said = "with the fewer texts of the ablations, on unseen sums the value accuracy of one expert for all"
    return difference(row, said, "that of RED's")


def _classes(costs: pd.DataFrame) -> str:
    """The group with the most classes: every value is one."""
    return max((name for name in costs["group"].unique() if name.startswith("C=")), key=lambda name: int(name[2:]))


def _larger(rows: pd.DataFrame) -> str:
    here = select(rows, variant=SOURCE, method="formula red/4.4")
    classes = _classes(here)
    edge = pick(here, group=classes, metric="break_even_rank")["value"]
    times = select(here, group=classes, metric="over_mixture").sort_values("rank")
    each = listed(f"{x:.3f}" for x in times["value"])
    return (
        "as the source defines it (4.4), RED is smaller than the mixture with its full-rank heads only below rank "
        f"{edge:.1f}: at the source's ranks {listed(times['rank'])} it has {each} times its parameters, counted"
    )


def _spared(rows: pd.DataFrame) -> str:
    here = select(rows, variant=SOURCE)
    token = pick(here, method="backbone", metric="flops_per_token")["value"]
    classes = _classes(here)
    every = select(here, method="red", group=classes, metric="extra_flops").set_index("rank")["value"]
    first = select(here, method="top1", group=classes, metric="extra_flops_skipping").set_index("rank")["value"]
    shares = ((every - first) / token).sort_index()
    return (
        f"to ask its first expert alone would save RED {listed(f'{x:.3%}' for x in shares)} of the backbone's work for "
        f"one token, at ranks {listed(shares.index)}, counted"
    )


def _wider(rows: pd.DataFrame) -> str:
    grown = select(rows, curve="width", method="moe_top1", metric="user_tokens_per_second_over_dense_b")
    ends = grown.loc[[grown["x"].idxmin(), grown["x"].idxmax()]]
    times = listed(f"{cell(row)} times at width {row['x']:.0f}" for _, row in ends.iterrows())
    return (
        "one request at a time, an untrained mixture of one expert a token has the speed of a dense model of its total "
        f"size {times}"
    )


def _dropped(rows: pd.DataFrame) -> str:
    mine = select(rows, seed="all", method="drop", metric="accuracy_minus_nested")
    budget = min(mine["x"], key=lambda x: abs(x - LOW_BUDGET))
    row = at(mine, budget)
    said = f"at budget {budget:g} the accuracy with the least important tokens dropped"
    return difference(row, said, "that of nested experts")


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
    yield "boundaries", "12_boundaries_and_operand_maps", "boundary_smoothness", _flips
    yield "where the arithmetic is", "13_where_the_arithmetic_is", "arithmetic_agreement", _follow
    yield "routing", "14_routing_case_studies", "case_spread", _sharp
    yield "planning", "16_step_decomposer", "planner", _programs
    yield "experts", "18_modularity", "modularity_ranges", _one_expert
    yield "experts", "19_ablations", "ablations", _fewer
    yield "cost", "21_cost_and_complexity", "cost", _larger
    yield "cost", "22_sparse_savings", "cost", _spared
    yield "sparse models", "23_sparse_against_dense", "sparse_growth", _wider
    yield "nested experts", "24_nested_experts", "nested", _dropped
    own, base = "20_red_plus", "that of its base alone"
    for task, what in (("task1", "sums"), ("task2", "chains")):
        yield "our own form", own, "red_plus", _plus(task, what, "red", "that of RED")
        yield "our own form", own, "red_plus", _plus(task, what, "red_plus_base", base)
    yield "our own form", own, "red_plus_beyond", _longer


_QUESTIONS = tuple(_questions())
