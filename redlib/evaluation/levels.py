"""The source's qualitative levels (4.6.2 accuracy, 4.6.3 macro-F1), filled from any table."""

import pandas as pd

ACCURACY_LEVELS = {"high": 0.80, "moderate": 0.55, "low": 0.0}  # lowest value of each level (the source, 4.6.2)
MACRO_F1_LEVELS = {"high": 0.16, "moderate": 0.08, "low": 0.0}  # over all 99 labels (the source, 4.6.3)


def thresholds(metric: str) -> dict[str, float]:
    """The source's thresholds for a metric: any accuracy, or a macro-F1 over all labels (macro_f1_C)."""
    if metric.endswith("accuracy"):
        return ACCURACY_LEVELS
    if metric.startswith("macro_f1_") and metric.removeprefix("macro_f1_").isdigit():
        return MACRO_F1_LEVELS
    raise ValueError(f"the source has no levels for metric {metric!r}; it has them for accuracies and macro_f1_99")


def level(value: float, metric: str) -> str:
    """high, moderate or low; ValueError for a metric without levels or a value below 0 (or NaN)."""
    for name, lowest in thresholds(metric).items():
        if value >= lowest:
            return name
    raise ValueError(f"{metric} {value} has no level; it must be 0 or more")


def levels(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The tidy rows of a metric with a column `level`, and `sure`: whether the interval stays inside that level."""
    chosen = frame[frame["metric"] == metric].copy()
    if chosen.empty:
        raise LookupError(f"no row with metric {metric!r}; present: {', '.join(sorted(frame['metric'].unique()))}")
    chosen["level"] = [level(value, metric) for value in chosen["value"]]
    ends = [{level(low, metric), level(high, metric)} for low, high in zip(chosen["low"], chosen["high"], strict=True)]
    chosen["sure"] = [len(end) == 1 for end in ends]
    return chosen
