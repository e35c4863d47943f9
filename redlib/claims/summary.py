"""What all verdicts come to: counts, reasons, and the numbers behind the one figure."""

import pandas as pd

from redlib.claims.catalogue import KINDS
from redlib.claims.deciding import CONTRADICTED, EXCEEDED, MISSED, ONLY, REPRODUCED, UNTESTED, VERDICTS
from redlib.claims.reported import METHODS, load

HELD = (REPRODUCED, EXCEEDED)
REASONS = (  # verdict, how its `why` or one of its conditions begins, and the reason in words; the first that fits
    (ONLY, "split text", "true of structures that training has seen, not of others"),
    (ONLY, "recipe source", "true under the source's recipe, not under the chosen one"),
    (ONLY, "definition", "true under another definition of steps, such as most chains having one operation"),
    (ONLY, "", "true under another reading only"),
    (MISSED, "the interval", "undecided: the interval reaches over the border"),
    (MISSED, "", "the number or the bound is missed under every reading"),
    (CONTRADICTED, "", "the opposite was measured"),
    (UNTESTED, "not yet on record", "the table is not on record yet"),
    (UNTESTED, "", "needs what is not at hand"),
)
IN_ITSELF = "the source says both"


def counts(checked: pd.DataFrame) -> pd.DataFrame:
    """Claims by kind (rows, and all) and verdict (columns, all of VERDICTS)."""
    table = pd.crosstab(checked["kind"], checked["verdict"]).reindex(index=KINDS, columns=VERDICTS, fill_value=0)
    table.loc["all"] = table.sum()
    return table.rename_axis(index="claims", columns=None)


def reason(claim: pd.Series) -> str:
    """Why a claim is neither reproduced nor exceeded, in words; empty where it is."""
    if claim["verdict"] in HELD:
        return ""
    if claim["kind"] == KINDS[2]:
        return IN_ITSELF
    whys = claim["why"].split("; ")
    return next(
        words
        for verdict, start, words in REASONS
        if verdict == claim["verdict"] and any(why.startswith(start) for why in whys)
    )


def reasons(checked: pd.DataFrame) -> pd.DataFrame:
    """How many claims have which reason: columns reason, claims, about RED (by name), one of them."""
    rows = checked.assign(reason=[reason(claim) for _, claim in checked.iterrows()])
    rows = rows[rows["reason"] != ""]
    order = dict.fromkeys([*(words for *_, words in REASONS), IN_ITSELF])
    about = rows["words"].str.contains("RED")
    table = pd.DataFrame(
        {
            "claims": rows.groupby("reason").size(),
            "about RED": rows[about].groupby("reason").size(),
            "one of them": rows.groupby("reason")["words"].first(),
        }
    )
    table = table.reindex([name for name in order if name in set(rows["reason"])])
    return table.fillna({"about RED": 0}).astype({"about RED": int}).rename_axis("reason").reset_index()


def waiting(checked: pd.DataFrame) -> pd.DataFrame:
    """Claims that wait for tables: columns notebook, tables, claims."""
    rows = checked[(checked["verdict"] == UNTESTED) & checked["why"].str.startswith("not yet on record")]
    named = rows.groupby("notebook")["table"].agg(lambda tables: ", ".join(dict.fromkeys(" ".join(tables).split())))
    found = pd.DataFrame({"tables": named, "claims": rows.groupby("notebook").size()}).rename_axis("notebook")
    return found.reset_index()


def drawn(checked: pd.DataFrame) -> pd.DataFrame:
    """Reported accuracies of the source's main tables beside the headline's and those on `text`: columns task, method
    (ours), group, reported, split, value, low, high, a row a number and split; numbers that were not measured are left
    out, and those of its ablations (4.9), which have other sizes here."""
    main = load().query("metric == 'accuracy' and not section.str.startswith('4.9')")
    numbers = main[["claim_id", "task", "method", "group", "number"]]
    rows = checked[["claim_id", "setting", "measured", "low", "high", "text_measured", "text_low", "text_high"]]
    rows = numbers.merge(rows, on="claim_id").rename(columns={"number": "reported"})
    rows = rows.assign(method=[METHODS[name][0] for name in rows["method"]])
    first = rows.rename(columns={"measured": "value"}).assign(split=_split(rows["setting"]))
    second = rows.drop(columns=["low", "high"]).assign(split="text")
    second = second.rename(columns={"text_measured": "value", "text_low": "low", "text_high": "high"})
    columns = ["task", "method", "group", "reported", "split", "value", "low", "high"]
    both = pd.concat([first[columns], second[columns]], ignore_index=True)
    return both.dropna(subset=["value"]).drop_duplicates(ignore_index=True)


def _split(settings: pd.Series) -> pd.Series:
    """The split in `chosen, structure, red`."""
    return settings.str.extract(r"\b(structure|text|phrasing)\b", expand=False)
