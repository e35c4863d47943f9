"""The tables of the README, computed from results and written between markers."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from redlib import claims, config, paths, results
from redlib.config import Profile
from redlib.results.provenance import known_runs
from redlib.study import judged
from redlib.study.answers import answers, short
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.stage import Say

START, END = "<!-- headline:start -->", "<!-- headline:end -->"
CLAIMS_START, CLAIMS_END = "<!-- claims:start -->", "<!-- claims:end -->"
MAP_START, MAP_END = "<!-- map:start -->", "<!-- map:end -->"
SPLITS = ("structure", "text")
RECIPES = ("chosen", "source")
METRICS = ("value_accuracy", "range_accuracy")
PLUS = "red_plus"


def page(tables: Path, text: str, checked: pd.DataFrame | None) -> str:
    """The README `text` with the headline of a folder of tables, the verdicts on the claims and the answers of the
    notebooks between their markers.

    checked: what `claims.check` returns; None leaves verdicts and answers as they are, since one answer counts the
    verdicts. ValueError for a missing or double marker.
    """
    of_record = config.PROFILES["record"].reads
    task1 = results.read(Path(tables) / "task1.csv")
    file = Path(tables) / f"{PLUS}.csv"
    plus = results.read(file) if file.is_file() else None
    shown = headline(task1, plus)
    where = f"from `data/results/{of_record}/task1.csv`" + ("" if plus is None else f" and `{file.name}`")
    read = task1 if plus is None else pd.concat([task1, plus])
    rows = f"test rows {shown.columns.name}".strip()
    note = f"Profile `{of_record}`, {rows}, mean over seeds with 95 % intervals, {where}.{_machines(read, tables)}"
    text = between(text, START, END, f"{markdown(shown)}\n\n{note}")
    if checked is None:
        return text
    said = answers(config.load("record"), results.Folder(tables).__getitem__, checked)
    text = between(text, MAP_START, MAP_END, notebook_map(said))
    return between(text, CLAIMS_START, CLAIMS_END, verdicts(checked))


def between(text: str, start: str, end: str, what: str) -> str:
    """`text` with `what` between two markers; ValueError when they are not there once each."""
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"README.md needs the markers {start} and {end} once each")
    before, rest = text.split(start)
    return f"{before}{start}\n{what}\n{end}{rest.split(end)[1]}"


def verdicts(checked: pd.DataFrame) -> str:
    """The counts of all verdicts as a Markdown table, and what is not on record yet."""
    counts = claims.counts(checked).astype(str).reset_index()
    waiting = claims.waiting(checked)
    said = ""
    if len(waiting):
        names = ", ".join(f"`{name}`" for name in waiting["notebook"])
        said = f"\n\n{waiting['claims'].sum()} claims wait for tables of {names}."
    return markdown(counts) + said


def notebook_map(said: Mapping[str, str]) -> str:
    """Every notebook with its question and the first sentence of its answer, as a Markdown table; `said` by name."""
    rows = [(f"`{one.name}`", one.question, short(said[one.name])) for one in NOTEBOOKS]
    return markdown(pd.DataFrame(rows, columns=["notebook", "question", "answer"]))


def write(profile: Profile, checked: pd.DataFrame, say: Say = print) -> None:
    """Bring the README up to date, for the profile of record alone; a README that is current is left alone."""
    if profile.name != "record":
        say(f"README.md stays as it is: {profile.name} is not the profile of record")
        return
    file = paths.root() / "README.md"
    old = file.read_text(encoding="utf-8")
    new = page(judged.folder(profile), old, checked)
    if new != old:
        paths.write_text(file, new)
    say("README.md is up to date" + ("" if new == old else " again"))


def _machines(rows: pd.DataFrame, tables: Path) -> str:
    runs: Mapping[str, dict] = known_runs(tables)
    made = [runs.get(run, {}) for run in rows["run"].unique()]
    machines = {about[part] for about in made for part in ("cpu", "gpu") if about.get(part, "none") != "none"}
    return f" Computed on {', '.join(sorted(machines))} (`runs.json` beside it)." if machines else ""


def headline(task1: pd.DataFrame, plus: pd.DataFrame | None = None) -> pd.DataFrame:
    """Value and range accuracy on test rows, all seeds and ranges, as text: a row for each recipe and method (best on
    unseen structures first), a column for each split and metric; the columns' name says n where it can be said in a few
    words. ValueError when the table has no such row.

    plus: the table of `red_plus`, whose seeds are others: the row of its method says n itself.
    """
    rows = _overall(task1[task1["variant"].isin(RECIPES)])
    if rows.empty:
        raise ValueError("table 'task1' has no accuracy of a recipe on test rows over all seeds")
    counts = _counts(rows)
    if plus is not None:
        own = _overall(plus[(plus["task"] == "task1") & (plus["method"] == PLUS)])
        rows = pd.concat([rows, own.assign(method=f"{PLUS} {_counts(own)}")])
    first = rows[(rows["split"] == SPLITS[0]) & (rows["metric"] == METRICS[0])]
    best = first.set_index(["variant", "method"])["value"].to_dict()
    rows = rows.assign(
        best=[-best.get(pair, 0) for pair in zip(rows["variant"], rows["method"], strict=True)],
        split=pd.Categorical(rows["split"], SPLITS, ordered=True),
        metric=pd.Categorical(rows["metric"], METRICS, ordered=True),
    ).sort_values(["variant", "best", "method", "split", "metric"])
    shown = _wide(rows)
    shown.columns.name = counts
    return shown.reset_index()


def _overall(frame: pd.DataFrame) -> pd.DataFrame:
    """What a headline shows of a table: the two accuracies on both splits, test rows, over seeds and ranges."""
    rows = frame[(frame["part"] == "test") & (frame["group"] == "all") & (frame["seed"].astype(str) == "all")]
    return rows[rows["metric"].isin(METRICS) & rows["split"].isin(SPLITS)]


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    columns = [f"{metric.split('_')[0]}, {split}" for metric, split in rows[["metric", "split"]].to_numpy()]
    named = rows.assign(column=columns).rename(columns={"variant": "recipe"})
    return results.table(named, ["recipe", "method"], "column")


def _counts(rows: pd.DataFrame) -> str:
    """`(n = 40,000 structure, 8,000 text)`, or nothing where it takes more words."""
    return (
        results.table(rows, ["variant", "method"], ["metric", "split"]).columns.names[-1].removeprefix("split").strip()
    )


def markdown(table: pd.DataFrame) -> str:
    """A frame of strings as a Markdown table."""
    lines = [list(table.columns), ["---"] * len(table.columns), *table.astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
