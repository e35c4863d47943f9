"""Which methods are worth their cost: accuracies joined with costs, and the ones that none other beats."""

import numpy as np
import pandas as pd

COSTS = ("parameters", "extra_flops")


def with_cost(frame: pd.DataFrame, costs: pd.DataFrame, rank: int | None = None) -> pd.DataFrame:
    """The rows of a tidy table of accuracies with the columns parameters and extra_flops, at the profile's backbone.

    costs: the table cost; its own backbone is the one whose prompts it measures. A column `rank` of the frame says the
    rank of each row, else `rank` does. LookupError naming a method and rank that the costs lack.
    """
    own = costs.loc[costs["metric"] == "tokens_median", "variant"].iloc[0]
    rows = costs[(costs["variant"] == own) & costs["metric"].isin(COSTS) & costs["rank"].gt(0)]
    rows = rows[~rows["method"].str.startswith("formula")]
    known = rows.pivot(index=["method", "rank"], columns="metric", values="value")
    keyed = frame if "rank" in frame else frame.assign(rank=rank)
    missing = [key for key in keyed[["method", "rank"]].itertuples(index=False, name=None) if key not in known.index]
    if missing:
        raise LookupError(f"table 'cost' has no method {missing[0][0]} of rank {missing[0][1]} on {own}")
    return keyed.join(known, on=["method", "rank"])


def front(frame: pd.DataFrame, cost: str, gain: str = "value") -> pd.Series:
    """True for every row that no other row beats: none is at least as good and as cheap, and better in one of the two.

    Rows with the same cost and the same gain stand or fall together.
    """
    less = np.subtract.outer(frame[cost].to_numpy(), frame[cost].to_numpy())  # what row i costs beyond row j
    more = np.subtract.outer(frame[gain].to_numpy(), frame[gain].to_numpy())
    beaten = (less >= 0) & (more <= 0) & ((less > 0) | (more < 0))
    return pd.Series(~beaten.any(axis=1), frame.index)
