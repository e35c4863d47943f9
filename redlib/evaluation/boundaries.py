"""Values at a range's edge against the values inside it (the source, 4.6.5)."""

import numpy as np
import pandas as pd


def near_boundaries(bias: pd.DataFrame, space, reach: int = 1) -> pd.DataFrame:
    """What `bias_by_value` says of the `reach` values on either side of every range boundary (20 and 21, 40 and 41,
    ...) and of all others.

    A row a variant, split, method and place (boundary, inside): same_range (share predicted inside the true range),
    signed_error (mean), n (predictions). ValueError for a label space of one range, which has no boundary.
    """
    if space.K < 2:
        raise ValueError("a label space of one range has no boundary")
    keys = ["variant", "split", "method", "place"]
    kept = bias[bias["metric"].isin(["same_range", "signed_error"])]
    places = [edge + step for _, edge in space.bounds[:-1] for step in range(1 - reach, reach + 1)]
    kept = kept.assign(
        place=np.where(kept["true_value"].isin(places), "boundary", "inside"), total=kept["value"] * kept["n"]
    )
    sums = kept.groupby([*keys, "metric"])[["total", "n"]].sum()
    wide = (sums["total"] / sums["n"].astype(float)).unstack("metric")
    wide["n"] = sums["n"].xs("same_range", level="metric")
    return wide.rename_axis(columns=None).reset_index()
