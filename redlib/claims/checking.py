"""Every claim of the source against a record: what was measured, the verdict, and where to look."""

from collections.abc import Collection

import pandas as pd

from redlib.claims.arithmetic import ARITHMETIC
from redlib.claims.catalogue import DESCRIBED, described
from redlib.claims.deciding import CONTRADICTED, OWN, REPRODUCED, UNTESTED, Tried, Verdict, compare, decide
from redlib.claims.judges import JUDGES, NOTEBOOKS, Record, Setting
from redlib.claims.judging import DIGITS, FAILS, HOLDS, OPEN, behind, together
from redlib.claims.rows import plain, readings_of, whole
from redlib.claims.smaller import OF_SMALLER
from redlib.config import Profile
from redlib.results import select

ON_TEXT = ("text_measured", "text_low", "text_high")
MEASURED = ("shown", "measured", "low", "high", "n", "setting", *ON_TEXT, "as_range")
CHECKED = (*DESCRIBED, *MEASURED, "verdict", "why", "said", "notebook", "command")
NONE_ON_RECORD = "not yet on record"
Found = dict[tuple[str, tuple], pd.DataFrame | LookupError]
TEXT_NOTEBOOK = "25_claims"  # of what needs no table
ASKED = ("finding", "against")  # rules that a chapter's verdict decides
OPPOSITE = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}


def check(record: Record, claim_ids: Collection[str] | None = None) -> pd.DataFrame:
    """All claims, or those with the given ids, with what was measured and a verdict each: columns CHECKED.

    `measured`, `low`, `high`, `n` are numbers where the measurement is one or several, of which they are the worst;
    `shown` says it in words, `setting` where it was read; ON_TEXT is the same on split `text`. The headline reads an
    accuracy as that of the value; `as_range` is the verdict if it means the range. `verdict` is one of VERDICTS, `why`
    its condition or reason, `said` both. A table that the record lacks gives `not testable here`, by its name.
    `command` measures it anew. LookupError for an id that no claim has.
    """
    asked, found = described(), {}
    asked = asked if claim_ids is None else select(asked, claim_id=list(claim_ids))
    return pd.DataFrame([_checked(record, claim, found) for claim in asked.to_dict("records")])[list(CHECKED)]


def _checked(record: Record, claim: dict, found: Found) -> dict:
    word, _, rest = claim["rule"].partition(" ")
    asked = JUDGES[rest.partition(": ")[0]] if word in ASKED else None
    tables = asked.tables if asked else tuple(claim["table"].split())
    notebook = asked.notebook if asked else NOTEBOOKS.get(claim["table"], TEXT_NOTEBOOK)
    verdict, as_range, on_text = _judged(record, claim | {"table": " ".join(tables)}, found)
    first, text = verdict.headline, on_text or Tried({}, "", "")
    return {
        **claim,
        "table": " ".join(tables),
        "shown": first.shown,
        "measured": first.value,
        "low": first.low,
        "high": first.high,
        "n": first.n,
        "setting": ", ".join(first.where.values()),
        **dict(zip(ON_TEXT, (text.value, text.low, text.high), strict=True)),
        "as_range": as_range,
        "verdict": verdict.verdict,
        "why": verdict.why,
        "said": verdict.said,
        "notebook": notebook,
        "command": _command(record.profile, tables, notebook),
    }


def _command(profile: Profile, tables: Collection[str], notebook: str) -> str:
    """What measures it anew; without a table, what shows it."""
    if tables:
        return f"python -m redlib tables {' '.join(tables)} --profile {profile.measured}"
    return f"python -m redlib run --profile {profile.name} --only {notebook}"


def _judged(record: Record, claim: dict, found: Found) -> tuple[Verdict, str, Tried | None]:
    """The verdict, what it is if the range is meant, and the headline's reading on split `text`."""
    word, _, rest = claim["rule"].partition(" ")
    if word == "none":
        return Verdict(UNTESTED, rest), "", None
    if word == "arithmetic":
        return _of_arithmetic(claim, rest), "", None
    lacking = [name for name in claim["table"].split() if name not in record.tables]
    if lacking:
        return Verdict(UNTESTED, f"{NONE_ON_RECORD}: {', '.join(lacking)}"), "", None
    try:
        tried = _ask(record, claim, found) if word in ASKED else _compare(record, claim, found)
        impossible = _impossible(record, claim, tried[0], found)
    except LookupError as error:  # rows that a smaller record leaves out
        return Verdict(UNTESTED, f"{NONE_ON_RECORD}: {error}"), "", None
    ranges = [one for one in tried if one.where.get("metric", "").startswith("range_")]
    values = [one for one in tried if one not in ranges]
    on_text = [one for one in values if {**one.where, "split": "text"} == {**values[0].where, "split": "text"}]
    text = next((one for one in on_text if one.where.get("split") == "text"), None)
    as_range = decide(ranges, claim["otherwise"]).said if ranges else ""
    return impossible or decide(values, claim["otherwise"]), as_range, text


def _of_arithmetic(claim: dict, name: str) -> Verdict:
    """Statements that do not agree are contradicted; a number that its own table or formula gives is reproduced."""
    shown, agrees = ARITHMETIC[name]() if name in ARITHMETIC else OF_SMALLER[name](claim["claim_id"])
    verdict, why, result = (REPRODUCED, OWN, HOLDS) if agrees else (CONTRADICTED, "", FAILS)
    return Verdict(verdict, why, Tried({}, result, shown))


def _compare(record: Record, claim: dict, found: Found) -> list[Tried]:
    word, _, number = claim["rule"].partition(" ")
    rows = _rows(record, claim["table"], "variant=" in claim["rows"], found)
    read = [*readings_of(rows, claim["rows"], record.labels), *_trained_longer(record, claim)]
    return [compare(here, where, word, float(number)) for where, here in read]


def _trained_longer(record: Record, claim: dict) -> list[tuple[dict[str, str], pd.DataFrame]]:
    """Readings of a main table's number in the systems that `schedule` trains otherwise, if it has such rows."""
    if claim["table"] not in ("task1", "task2") or "schedule" not in record.tables:
        return []
    rows, made = whole(record.tables["schedule"]), []
    rows = rows[(rows["task"] == claim["table"]) & (rows["configuration"] != "steady")]
    for name, here in rows.groupby("configuration"):
        try:
            read = readings_of(here, claim["rows"], record.labels)
        except LookupError:  # of a method or a group that it does not have
            continue
        made += [({**where, "rate": str(name)}, found) for where, found in read]
    return made


def _rows(record: Record, table: str, every_variant: bool, found: Found) -> pd.DataFrame:
    """The rows of a table that claims are about, kept for the next claim."""
    key = (table, (every_variant,))
    if key not in found:
        found[key] = (whole if every_variant else plain)(record.tables[table])
    return found[key]


def _ask(record: Record, claim: dict, found: Found) -> list[Tried]:
    word, _, rest = claim["rule"].partition(" ")
    judge, _, finding = rest.partition(": ")
    tried, silent = [], LookupError(f"no main setting in {', '.join(JUDGES[judge].tables)}")
    for where in JUDGES[judge].where(record):
        key = (judge, tuple(where.values()))
        if key not in found:
            found[key] = _says(record, judge, where)
        try:
            tried.append(_finding(found[key], finding, where, word))
        except LookupError as error:
            silent = error
    if not tried:
        raise silent
    return tried


def _says(record: Record, judge: str, where: Setting) -> pd.DataFrame | LookupError:
    """A chapter's verdicts in one setting, or what it says of rows that the record lacks."""
    try:
        return JUDGES[judge].says(record, where)
    except LookupError as error:
        return error


def _finding(found: pd.DataFrame | LookupError, finding: str, where: Setting, word: str) -> Tried:
    """The rows of a finding as one: all have to hold, and the numbers are those of the worst."""
    if isinstance(found, LookupError):
        raise found
    rows = found[found["claim"] == finding]
    if rows.empty:
        raise LookupError(f"no finding {finding!r}; there are: {'; '.join(found['claim'].unique())}")
    shown = "; ".join(dict.fromkeys(rows["measured"]))
    result = together(rows["verdict"])
    decides = rows[rows["verdict"] == result]
    row = decides.loc[decides["margin"].idxmin()] if len(decides) > 1 else decides.iloc[0]
    beyond = word != "against" and bool(rows.get("beyond", pd.Series([False])).all())
    result = OPPOSITE[result] if word == "against" else result
    return Tried(where, result, shown, beyond, **behind(row))


def _impossible(record: Record, claim: dict, headline: Tried, found: Found) -> Verdict | None:
    """A macro-F1 over all values that is above what answers without a mistake would get is contradicted."""
    word, _, number = claim["rule"].partition(" ")
    metric = f"macro_f1_{record.labels.C}"
    if word != "equal" or f"metric={metric};" not in claim["rows"]:
        return None
    group = claim["rows"].partition("group=")[2].partition(";")[0]
    rows = _rows(record, claim["table"], False, found)
    most = select(rows, metric=f"{metric}_ceiling", group=group, part="test")["value"].max()
    possible = float(number) <= most + DIGITS
    return None if possible else Verdict(CONTRADICTED, f"without a mistake it would be {most:.4f}", headline)
