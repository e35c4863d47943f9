"""The ablations: a forest plot a question, each run beside its own RED on the same rows."""

import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.fair import LABELS, TASKS
from redlib.figures.foundations import POOLINGS
from redlib.figures.style import METRICS, SPLITS
from redlib.figures.task1 import INTERVALS
from redlib.results import cell, difference, listed, select, table

TITLES = {
    "residual": "Without the residual path, and with the same experts mixed as logits",
    "experts": "How many experts, each for a range with as many texts",
    "rank": "How narrow an expert may be",
    "router": "How large the router must be",
    "base_share": "How much of the training rows the base sees",
    "depth": "Where the features are read",
    "expert_share": "How much of the training rows the experts see",
    "readout": "A classifier after the sum that is not linear",
    "weights": "How many of the weights count",
    "balance": "A loss that asks for equal loads",
    "order": "Experts and router together, or one after the other",
    "tuned_layers": "How many layers of the backbone are tuned",
    "tuned_share": "How much of the training rows the tuned base sees",
}
WORDS = {  # a setting and its value in words
    "mixing": lambda v: f"mixed as {v}",
    "arm": lambda v: LABELS[v].removeprefix("+ ").rpartition(": ")[2],  # without the steps that led to it
    "experts": lambda v: f"K = {v}" if v != "1" else "no ranges",
    "rank": lambda v: f"rank {v}",
    "router_hidden": lambda v: f"{v} hidden units" if v != "0" else "linear router",
    "base_share": lambda v: f"base on {float(v):.0%} of the rows",
    "layer": lambda v: f"hidden state {v}" if v != "-1" else "after the final norm",
    "pooling": lambda v: POOLINGS[v].label,
    "expert_share": lambda v: f"experts on {float(v):.0%} of the rows",
    "readout_hidden": lambda v: f"readout with {v} hidden units",
    "top": lambda v: f"top {v}",
    "balance": lambda v: f"load loss x {v}",
    "order": lambda v: {"joint": "together from the start", "joint_after": "together, after one by one"}[v],
    "tuned_layers": lambda v: f"{v} layer{'' if v == '1' else 's'} tuned",
}


def setting_name(changed: str, own: str = "") -> str:
    """What a run changes, in words: `rank 4`; `own` words for a run that changes nothing."""
    if changed == "nothing":
        return f"RED as it is{f' ({own})' if own else ''}"
    parts = (part.partition("=") for part in changed.split(","))
    return ", ".join(WORDS[name](value) for name, _, value in parts)


def tell_ablation(frame: pd.DataFrame, question: str, own: str = "") -> tuple[pd.DataFrame, str]:
    """What `draw_ablation` draws, as text: accuracies of the runs (task, split, metric across), and what each change
    does to the value accuracy on `structure`. Runs of unequal numbers of seeds are said to be so. LookupError for a
    question that the frame does not hold."""
    mine = select(frame, question=question)
    rows = select(mine, seed="all")
    levels = rows[rows["metric"].isin(["value_accuracy", "range_accuracy"])].sort_values(["x", "split"])
    levels = levels.assign(run=[setting_name(changed, own) for changed in levels["changed"]])
    changes = select(rows, metric="value_accuracy_change", split="structure")
    lines = ["Value accuracy, `structure`, paired:", ""]
    for _, row in changes.sort_values(["task", "reference", "x"]).iterrows():
        other = row["reference"].rpartition("/")[2]
        other = setting_name(other if "=" in other else "nothing")
        lines.append(f"- `{row['task']}`: {difference(row, setting_name(row['changed']), other)}.")
    seeds = mine[mine["seed"] != "all"].sort_values("x").groupby("changed", sort=False)["seed"].nunique()
    unequal = seeds.nunique() > 1
    if unequal:
        of = [f"{n} of {listed(map(setting_name, runs.index))}" for n, runs in seeds.groupby(seeds, sort=False)]
        lines += ["", f"Seeds: {'; '.join(of)}. The table is over all seeds of a run, a difference over shared ones."]
    return table(levels, ["run"], ["task", "split", "metric"], n=unequal), "\n".join(lines)


@style.styled
def draw_ablation(
    frame: pd.DataFrame,
    question: str,
    profile: str,
    backbone: str = "",
    note: str = "",
    own: str = "",
    costs: pd.DataFrame | None = None,
) -> Figure:
    """One question: accuracy of every run minus its own RED's on the same rows, a column a task and metric.

    Reads ablations: value_accuracy_change and range_accuracy_change against the question's own RED, and its levels;
    seed = all. `own`: RED's own value in words; `costs`: ablations_cost, for parameters beside the names.
    """
    metrics = ("value_accuracy", "range_accuracy")
    rows = select(frame, question=question, seed="all")
    levels, changes = rows[rows["metric"].isin(metrics)], rows[rows["metric"].isin([f"{m}_change" for m in metrics])]
    names = levels.drop_duplicates("x").sort_values("x").set_index("x")["changed"]
    splits = [split for split in SPLITS if split in set(rows["split"])]
    tasks = [task for task in TASKS if task in set(rows["task"])]
    about = style.subtitle(levels.drop(columns="variant"), profile, backbone, f"paired, {INTERVALS}")
    size = (3.4 + 2.7 * len(tasks) * len(metrics), 0.36 * len(names) + 2.6)
    fig, axes = style.canvas(size, TITLES[question], about, note, 1, len(tasks) * len(metrics), sharey=True)
    for ax, (task, metric) in zip(axes[0], [(task, metric) for task in tasks for metric in metrics], strict=True):
        ax.axvline(0, color=style.INK, linewidth=0.8)
        said = []
        for split, shift in zip(splits, (0.14, -0.14) if len(splits) > 1 else (0.0,), strict=True):
            here = levels[(levels["task"] == task) & (levels["split"] == split) & (levels["metric"] == metric)]
            red = here[here["x"] == 0].iloc[0]
            said.append(f"RED, {split}: {cell(red)}")
            mine = changes[(changes["task"] == task) & (changes["split"] == split)]
            mine = mine[(mine["metric"] == f"{metric}_change") & (mine["reference"] == red["variant"])]
            at = -mine["x"] + shift
            hollow = split == "structure"
            style.points(ax, mine["value"], at, mine["low"], mine["high"], SPLITS[split], True, hollow)
        ax.set_title("\n".join([f"{TASKS[task]}: {METRICS[metric].partition(' (')[0]}", *said]), fontsize=8.5)
        ax.set_xlabel("minus RED (share of rows)")
        ax.locator_params(axis="x", nbins=4)
    sizes = _sizes(levels, costs)
    axes[0, 0].set_yticks(
        [-x for x in names.index], [setting_name(changed, own) + sizes.get(x, "") for x, changed in names.items()]
    )
    axes[0, 0].set_ylim(-max(names.index) - 0.6, 0.6)
    style.legend_below(fig, axes[0, 0])
    return fig


def _sizes(levels: pd.DataFrame, costs: pd.DataFrame | None) -> dict[float, str]:
    """Parameters of the run at every place, as text; empty without costs."""
    if costs is None:
        return {}
    counted = costs[costs["metric"] == "parameters"].drop_duplicates("variant").set_index("variant")["value"]
    first = levels.drop_duplicates("x").set_index("x")["variant"]
    return {x: f"\n{counted[variant]:,.0f} parameters" for x, variant in first.items()}
