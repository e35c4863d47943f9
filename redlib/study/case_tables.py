"""The tables of the case studies: the source's four questions (4.11) on every seed, how typical they are, ten more.

`cases` has a row for each number that `explain` gives about a question, `case_picks` the same for the ten;
`case_routes` has the weights of all test rows by true range, `case_spread` how their largest weights are distributed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import claims, explain, models, routing, statistics
from redlib.config import Profile
from redlib.evaluation.predictions import variant
from redlib.expressions import Expression
from redlib.study import cases, explaining, methods
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

METHOD = "red"
SPLITS = ("structure", "text")
STEPS = "operations"
LEVELS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)


def questions() -> list[str]:
    """The source's four questions, as its claims hold them (4.11)."""
    reported = claims.load()
    return list(dict.fromkeys(reported["group"][reported["section"] == "4.11"]))


def settings(profile: Profile) -> list[Setting]:
    """Task 1 with both recipes, and Task 2 (`operations`) with recipe chosen, on the splits that have seeds."""
    task2 = profile.task2.definitions.get(STEPS)
    counts = {
        ("task1", "chosen"): profile.task1.seeds,
        ("task1", "source"): profile.task1.source_seeds,
        ("task2", "chosen"): task2.seeds if task2 else {},
    }
    wanted = [(*key, split) for key, seeds in counts.items() for split in SPLITS if seeds.get(split)]
    return [explaining.setting(profile, task, recipe, split, STEPS) for task, recipe, split in wanted]


def case_tables(profile: Profile) -> Stage:
    """cases.csv, case_picks.csv, case_routes.csv and case_spread.csv."""
    wanted = settings(profile)
    inputs = {f"{s.task} {s.name}": methods.predictions_stage(s) for s in wanted}
    config = {"resamples": profile.bootstrap, "questions": questions(), "rules": cases.RULES}

    def make(stage: Stage, out: Path) -> None:
        predicted = [(s, _test_rows(s, stage.inputs[f"{s.task} {s.name}"].folder)) for s in wanted]
        made = {
            "cases": pd.concat([_cases(profile, s, rows) for s, rows in predicted]),
            "case_picks": _picks(profile, wanted[0]),
            "case_routes": pd.concat([_routes(profile, s, rows) for s, rows in predicted]),
            "case_spread": pd.concat([_spread(profile, s, rows) for s, rows in predicted]),
        }
        save(profile, stage, out, {name: fill(frame) for name, frame in made.items()})

    seconds = 10 + sum(s.seeds for s in wanted) * 2
    return Stage("case tables", 1, config, make, inputs, seconds)


def _test_rows(s: Setting, folder: Path) -> pd.DataFrame:
    """RED's test rows, with the largest weight and the first choice of each."""
    rows = pd.read_parquet(folder / "predictions.parquet")
    rows = rows[(rows["method"] == METHOD) & (rows["part"] == "test") & ~rows["recipe"].str.contains("/")]
    alpha = routing.weights_of(rows, s.labels)
    return rows.reset_index(drop=True).assign(largest=alpha.max(1), first=alpha.argmax(1))


def _about(s: Setting) -> dict[str, str]:
    return {"task": s.task, "variant": variant(s.definition, s.recipe.name), "split": s.split}


# ---- the source's four questions ---------------------------------------------------------------------------------


def _cases(profile: Profile, s: Setting, rows: pd.DataFrame) -> pd.DataFrame:
    """Every number about the four questions, a row a seed, and over seeds with an interval."""
    frames = []
    for seed in range(s.seeds):
        explained = _explainer(profile, s, seed).explain_all(questions(), METHOD)
        frames += [_numbers(e).assign(group=e.text, seed=str(seed)) for e in explained]
        mine = rows[rows["seed"] == seed]
        frames += [_typical(e, mine).assign(seed=str(seed)) for e in explained if e.true_range]
    each = pd.concat(frames, ignore_index=True)
    how_much = ~(each["metric"].isin(CHOICES) | each["metric"].str.startswith("alone_"))
    whole = each[how_much].groupby(["method", "group", "metric"], sort=False)["value"]
    over = pd.DataFrame([_over_seeds(key, values, profile.bootstrap) for key, values in whole])
    return pd.concat([each, over]).assign(part="question", case="source", **_about(s))


def _explainer(profile: Profile, s: Setting, seed: int) -> explain.Explainer:
    models = {s.split: lambda: explaining.trained_model(profile, s, seed)}
    return explaining.assemble(profile, s.task, s.recipe.name, models, s.split)


CHOICES = ("answer", "first_choice", "best_expert", "true_value")  # which, not how much: no mean over seeds
YES_OR_NO = ("value_accuracy", "seen")


def _numbers(e: explain.Explanation) -> pd.DataFrame:
    """What an explanation says of RED and of the answers of the other methods: method, metric, value.

    alpha_k, norm_k, cosine_k (to the sum), alone_k (the expert's own answer); shared and part_k: the logit of the true
    value, or of the answer where none is known, as the sum shared + part_1 + .. + part_K; truth: probability of the
    true value; seen, distance: of its structure; first_choice, best_expert: 1..K. Where something is not known, no row.
    """
    inside = e.true_range is not None
    steps = e.waterfall(e.true_value if inside else None)
    said = {"answer": e.answer.value, "confidence": e.answer.probability, "entropy": e.entropy}
    said |= {"first_choice": 1 + int(np.argmax(e.alpha)), "shared": steps["shared"]}
    for k, expert in enumerate(e.experts, 1):
        said |= {f"alpha_{k}": expert.weight, f"norm_{k}": expert.norm, f"cosine_{k}": expert.to_sum}
        said |= {f"alone_{k}": expert.alone.value, f"part_{k}": steps[expert.name]}
    if e.expression is not None:
        said |= {"true_value": e.true_value, "value_accuracy": e.right, "seen": e.seen}
        said |= {"distance": e.nearest[0].distance} if e.nearest else {}
    if inside:
        truth = e.probabilities[e.labels.index(e.true_value)]
        said |= {"truth": truth, "regret": e.regret, "best_expert": 1 + e.labels.names.index(e.best_expert.name)}
    rows = [(METHOD, metric, value) for metric, value in said.items()]
    for other in e.methods:
        if other.method != METHOD:
            rows.append((other.method, "answer", other.value))
            rows += [(other.method, "value_accuracy", other.value == e.true_value)] if e.expression is not None else []
    return pd.DataFrame(rows, columns=["method", "metric", "value"]).astype({"value": float})


def _typical(e: explain.Explanation, rows: pd.DataFrame) -> pd.DataFrame:
    """A question beside the test rows of its true range: percentile (share of them whose largest weight is no larger)
    and same_route (share whose first choice is the question's)."""
    like = rows[rows["range"] == e.labels.names.index(e.true_range)]
    said = {
        "percentile": (like["largest"] <= max(e.alpha)).mean(),
        "same_route": (like["first"] == np.argmax(e.alpha)).mean(),
    }
    frame = pd.DataFrame({"metric": said.keys(), "value": said.values()})
    return frame.assign(method=METHOD, group=e.text)


def _over_seeds(key: tuple, values: pd.Series, resamples: int) -> dict:
    """Mean over seeds. The interval resamples seeds, and one seed has none; that of yes or no is Wilson's."""
    row, n = dict(zip(("method", "group", "metric"), key, strict=True)), len(values)
    low, high = np.nan, np.nan
    if row["metric"] in YES_OR_NO:
        low, high = statistics.wilson(int(values.sum()), n)
    elif n > 1:
        draws = np.random.default_rng([29, n]).integers(n, size=(resamples, n))
        low, high = np.quantile(values.to_numpy()[draws].mean(1), [0.025, 0.975])
    return row | {"seed": "all", "value": values.mean(), "n": n, "low": low, "high": high}


# ---- ten more ----------------------------------------------------------------------------------------------------


def _picks(profile: Profile, s: Setting, seed: int = 0) -> pd.DataFrame:
    """The ten questions that `cases.choose` finds in the test rows of one seed, with every number about them."""
    explainer = _explainer(profile, s, seed)
    chosen = cases.choose(candidates(s, explainer.model(), seed), s.labels)
    frames = [
        _numbers(e).assign(group=e.text, case=case)
        for e, case in zip(explainer.explain_all(chosen["text"].tolist(), METHOD), chosen["case"], strict=True)
    ]
    return pd.concat(frames).assign(part="test", seed=str(seed), **_about(s))


@torch.no_grad()
def candidates(s: Setting, model: explain.Model, seed: int) -> pd.DataFrame:
    """The test rows of a setting without tuned layers, with what `cases.choose` asks for."""
    data = Data(s)
    rows = data.rows["test"][seed]
    frame = data.pool.iloc[rows].reset_index(drop=True)
    opened = routing.open_experts(models.assemble(METHOD, s.labels, model.parts), data.x[rows].cpu())
    log_p = opened.answer(opened.alpha).double().log_softmax(-1)
    truth = data.value[rows]
    lost = routing.regret(opened, truth)
    own = opened.alpha[torch.arange(len(rows)), data.range[rows]]
    return frame.assign(
        right=(log_p.argmax(-1) == truth).numpy(),
        first=opened.alpha.argmax(-1).numpy(),
        own=own.numpy(),
        entropy=-(log_p.exp() * log_p).sum(-1).numpy(),
        regret=lost.expert - lost.own,
        distance=list(_distances(model, frame)),
    )


def _distances(model: explain.Model, frame: pd.DataFrame) -> Iterator[float]:
    """Of every row to the nearest training structure; infinite where none has its form."""
    known: dict[str, float] = {}
    for text, structure in zip(frame["expression"], frame["structure"], strict=True):
        if structure not in known:
            near = model.seen.nearest(Expression.read(text), 1)
            known[structure] = near[0].distance if near else np.inf
        yield known[structure]


# ---- how typical they are ----------------------------------------------------------------------------------------


def _routes(profile: Profile, s: Setting, rows: pd.DataFrame) -> pd.DataFrame:
    """Mean weights alpha_k over the test rows of each true range, and first_k, the share whose first choice is k."""
    resample = routing.resampler(rows, f"{s.task}/{s.name}", profile.bootstrap)
    alpha, ranges = routing.weights_of(rows, s.labels), rows["range"].to_numpy()
    found = {}
    for k, name in enumerate(s.labels.names):
        mask = np.repeat((ranges == k)[:, None], s.labels.K, 1)
        for metric, columns in (
            ("alpha", alpha),
            ("first", rows["first"].to_numpy()[:, None] == np.arange(s.labels.K)),
        ):
            ratios = resample.ratio(columns * mask, mask)
            found |= {(name, f"{metric}_{i}"): ratio for i, ratio in enumerate(ratios, 1)}
    return routing.tidy(found, ["group", "metric"], method=METHOD, part="test", **_about(s))


def _spread(profile: Profile, s: Setting, rows: pd.DataFrame) -> pd.DataFrame:
    """largest_at_most: share of the test rows of each true range whose largest weight is at most x."""
    resample = routing.resampler(rows, f"{s.task}/{s.name}", profile.bootstrap)
    mask = (rows["range"].to_numpy()[:, None] == np.arange(s.labels.K)).astype(float)
    found = {}
    for x in LEVELS:
        ratios = resample.ratio((rows["largest"].to_numpy() <= x)[:, None] * mask, mask)
        found |= {(name, x, "largest_at_most"): ratio for name, ratio in zip(s.labels.names, ratios, strict=True)}
    return routing.tidy(
        found, ["group", "x", "metric"], method=METHOD, part="test", curve="largest weight", **_about(s)
    )


TABLES: dict[str, Callable[[Profile], Stage]] = dict.fromkeys(
    ("cases", "case_picks", "case_routes", "case_spread"), case_tables
)
