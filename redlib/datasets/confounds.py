"""What the data of Task 2 force: how far operators, lengths and partial results tell the range of a chain."""

import pandas as pd

from redlib.expressions import SOURCE_LABELS, SOURCE_OPERANDS, Chains, Expression, LabelSpace


def confounds(
    pool: pd.DataFrame, operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS
) -> pd.DataFrame:
    """One line for every number of `operations` ("all", "1", "2", ..) and every `group` ("all", R1..RK).

    rows; share (of the group's rows); expressions and structures (distinct); plus_share (of the operators that are +);
    addition_only, subtraction_only and mixed (shares of the line's rows); partials_outside_operands and
    partials_outside_values (shares of rows with a result before the last one outside `operands`, outside the labels);
    possible and possible_subtraction_only (expressions that the domain holds). Shares of no rows are NaN.
    """
    facts = {text: _facts(Expression.read(text), operands, labels) for text in pool["expression"].unique()}
    rows = pd.DataFrame([facts[text] for text in pool["expression"]])
    rows = rows.assign(**{column: pool[column].to_numpy() for column in ("expression", "structure", "range")})
    lengths = sorted(pool["operations"].unique().tolist())
    groups = [("all", (labels.lo, labels.hi)), *zip(labels.names, labels.bounds, strict=True)]
    lines = []
    for k, (group, bounds) in enumerate(groups, start=-1):
        of_group = rows if k < 0 else rows[rows["range"] == k]
        for some in (lengths, *([n] for n in lengths)):
            of_line = of_group[of_group["signs"].isin(some)]
            line = {"operations": "all" if some is lengths else str(some[0]), "group": group}
            share = len(of_line) / len(of_group) if len(of_group) else float("nan")
            lines.append(line | {"rows": len(of_line), "share": share} | _line(of_line, some, bounds, operands))
    return pd.DataFrame(lines)


def _facts(expression: Expression, operands: tuple[int, int], labels: LabelSpace) -> dict[str, int | bool]:
    plus, signs = expression.operators.count("+"), len(expression.operators)
    partials = expression.partials[:-1]
    return {
        "plus": plus,
        "signs": signs,
        "addition_only": expression.pattern == "addition",
        "subtraction_only": expression.pattern == "subtraction",
        "mixed": expression.pattern == "mixed",
        "partials_outside_operands": any(not operands[0] <= partial <= operands[1] for partial in partials),
        "partials_outside_values": any(not labels.lo <= partial <= labels.hi for partial in partials),
    }


def _line(
    rows: pd.DataFrame, lengths: list[int], bounds: tuple[int, int], operands: tuple[int, int]
) -> dict[str, int | float]:
    shares = ("addition_only", "subtraction_only", "mixed", "partials_outside_operands", "partials_outside_values")
    return {
        "expressions": rows["expression"].nunique(),
        "structures": rows["structure"].nunique(),
        "plus_share": rows["plus"].sum() / rows["signs"].sum() if len(rows) else float("nan"),
        **{name: rows[name].mean() for name in shares},
        "possible": sum(Chains(p, n - p, bounds, operands).count for n in lengths for p in range(n + 1)),
        "possible_subtraction_only": sum(Chains(0, n, bounds, operands).count for n in lengths),
    }
