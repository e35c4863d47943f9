"""The tables that show the system at work: parts trained apart and assembled (the source, 4.5.5), and single programs
step by step (4.8)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import models
from redlib.config import Profile
from redlib.execution import Look, Run, StepTable, encode, outcomes, run
from redlib.execution.table import UNKNOWN
from redlib.expressions import OPERATORS, Expression
from redlib.models.executors import Cast, executor
from redlib.programs import SIGN, Program
from redlib.study import assembly_planner, execution, operations, planner, separate
from redlib.study.assembly_planner import REDUCED, WAYS
from redlib.study.data import read_pool
from redlib.study.stage import Stage
from redlib.study.writing import fill, save


def assembly_tables(profile: Profile) -> Stage:
    """execution_assembly.csv: RED trained in one process, in a process a part, and that with parts cast to bf16.

    Variants <domain>/ of WAYS. Metrics: value_accuracy of all steps of the domain (exact) and of gold programs (group
    programs), router_accuracy; against `single`: equal (1: all parameters bit for bit), logit_difference and
    weight_difference (largest), changed (share of steps with another value); processes that trained the parts. Where
    the profile has a planner: value_accuracy of the whole system (group questions: programs planned and executed), and
    in group planner program_exact, equal (of a short training) and, of the one that is cast, changed (share of
    programs), logit_difference and logit_drift (relative to a row of logits).
    """
    name, split, planned = profile.operations.domains[0], separate.split(profile), separate.planned(profile)
    ways = dict(zip(WAYS[:2], (False, True), strict=True))
    parts = {way: separate.stages(profile, name, split, apart) for way, apart in ways.items()}
    inputs = {f"{way} {part}": stage for way, made in parts.items() for part, stage in made.items()}
    inputs |= {"population": operations.population(profile), "chains": operations.chains(profile, name)}
    if planned:
        inputs |= {f"{way} planner": separate.planner_stage(profile, apart) for way, apart in ways.items()}
        inputs |= {"pool": planner.pool(profile), "states": planner.states_stage(profile)}
        inputs |= {"planner": planner.trained_stage(profile, split, 0)}
        inputs |= {"planned": planner.predictions_stage(profile, split)}

    def make(stage: Stage, out: Path) -> None:
        x = torch.from_numpy(np.load(stage.inputs["population"].folder / "x.npy"))
        found = {way: separate.assembled(made) for way, made in parts.items()}
        reduced = found["separate"] | {"router": Cast(found["separate"]["router"], REDUCED)}
        found |= dict.fromkeys(WAYS[2:] if planned else WAYS[2:3], reduced)
        same = {way: separate.equal(found["single"], made) for way, made in found.items()}
        said = {way: _logits(profile, made, x) for way, made in found.items()}
        asked = read_pool(stage.inputs["chains"].folder)["expression"]
        programs = [Program.from_expression(Expression.read(text)) for text in asked]
        lines = []
        for way, (logits, alpha) in said.items():
            measured = _accuracies(profile, name, logits, alpha, programs)
            measured |= _differences(profile, name, said["single"], (logits, alpha))
            measured["all", "equal"] = (float(same[way]), pd.NA)
            lines += [(f"{name}/{way}", *key, value, n) for key, (value, n) in measured.items()]
        if planned:
            looks = {way: _look(profile, logits) for way, (logits, _) in said.items()}
            lines += [(f"{name}/{way}", *line) for way, *line in assembly_planner.lines(profile, stage, looks)]
        trained = [json.loads(file.read_text())["pid"] for file in _processes(inputs)]
        lines.append((f"{name}/separate", "all", "processes", len(set(trained)), len(trained)))
        tidy = pd.DataFrame(lines, columns=["variant", "group", "metric", "value", "n"])
        about = {"task": "decomposed", "split": split, "part": "all", "method": "red", "seed": "0"}
        save(profile, stage, out, {"execution_assembly": fill(tidy, **about)})

    config = {"reduced": str(REDUCED), "asked": assembly_planner.ASKED if planned else 0}
    return Stage("execution assembly", 2, config, make, inputs, 20 + config["asked"] * 0.4)


def _processes(inputs: dict[str, Stage]) -> list[Path]:
    """The notes of the processes that trained the parts apart."""
    made = [upstream for stage in inputs.values() for upstream in (stage, *stage.upstream())]
    files = {stage.folder / separate.PROCESS for stage in made}
    return sorted(file for file in files if file.is_file())


def _logits(profile: Profile, parts: dict, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """RED's logits (P, C) and weights (P, K) for every step of the population."""
    with torch.no_grad():
        said = executor("red", operations.labels(profile), parts, len(OPERATORS))(x)
    return said.logits, said.alpha


def _accuracies(profile: Profile, name: str, logits, alpha, programs: list[Program]) -> dict:
    space, within = operations.labels(profile), operations.domain(profile, name)
    steps = pd.DataFrame(operations.reachable(profile).steps(), columns=["first", "operator", "second"])
    sign, operation = steps["operator"].map(SIGN).to_numpy(), steps["operator"].map(OPERATORS.index).to_numpy()
    first, second = steps["first"].to_numpy(), steps["second"].to_numpy()
    inside, values = within.holds(first, sign, second), logits.argmax(-1).numpy() + space.lo
    found = outcomes(programs, programs, run(encode(programs), _look(profile, logits), within), space)
    return {
        ("all", "value_accuracy"): ((values == first + sign * second)[inside].mean(), inside.sum()),
        ("all", "router_accuracy"): ((alpha.argmax(-1).numpy() == operation)[inside].mean(), inside.sum()),
        ("programs", "value_accuracy"): ((found["predicted_value"] == found["value"]).mean(), len(found)),
    }


def _look(profile: Profile, logits: torch.Tensor) -> Look:
    """The executor that has these logits (P, C) for the steps of the population."""
    space = operations.labels(profile)
    ranges = models.range_probabilities(logits, space).argmax(-1).numpy()
    said = {"red": (logits.argmax(-1).numpy() + space.lo, ranges)}
    return StepTable.of(operations.reachable(profile), said).look("red")


def _differences(profile: Profile, name: str, one, other) -> dict:
    logits, alpha = ((a - b).abs().max().item() for a, b in zip(one, other, strict=True))
    changed = one[0].argmax(-1) != other[0].argmax(-1)
    return {
        ("all", "logit_difference"): (logits, len(changed)),
        ("all", "weight_difference"): (alpha, len(changed)),
        ("all", "changed"): (changed.float().mean().item(), len(changed)),
    }


# ---- programs step by step ---------------------------------------------------------------------------------------


def example_tables(profile: Profile) -> Stage:
    """execution_examples.csv: the first program of every fate (`execution.KINDS`), step by step, under RED, seed 0, for
    every domain on its own chains: planned ones, where the profile has a planner.

    A row a step (columns text, step: the line, wanted: that of the right program, operator, first, second, true_value:
    what the numbers give) and metric:
    value, confidence, weight_1, .. of the experts, outside (1: not in the domain), and probability of the line where a
    planner wrote it. The last step's rows also say answer (true_value: that of the question) and flagged.
    """
    planned = execution.planners(profile)
    own = [arm for arm in execution.arms(profile, planned) if arm.chains == arm.experts]
    wanted = list({arm.experts: arm for arm in own}.values())  # the last one of every domain
    names = {f"chains {arm.chains}" for arm in wanted} | {f"executors {arm.experts}, {arm.split}" for arm in wanted}
    names |= {f"planner {execution.asks(arm.split, arm.chains)}" for arm in wanted}
    inputs = {name: made for name, made in execution.inputs(profile, planned).items() if name in names}

    def make(stage: Stage, out: Path) -> None:
        frames = []
        for arm in wanted:
            about = {"task": "decomposed", "variant": arm.variant, "split": arm.split, "part": "test"}
            frames.append(fill(examples(profile, arm, stage).assign(method="red", seed="0"), **about))
        save(profile, stage, out, {"execution_examples": pd.concat(frames, ignore_index=True)})

    return Stage("execution examples", 1, {"arms": [[arm.variant, arm.split] for arm in wanted]}, make, inputs)


def examples(profile: Profile, arm: execution.Arm, stage: Stage) -> pd.DataFrame:
    """The rows of execution_examples for one arm; of each fate the longest program that comes first."""
    seed, _, asked, looks = next(execution.each_seed(profile, arm, stage))
    within, space = operations.domain(profile, arm.experts), operations.labels(profile)
    done = run(encode(asked.given), looks["red"], within)
    found = outcomes(asked.gold, asked.given, done, space)
    said = pd.read_parquet(stage.inputs[f"executors {arm.experts}, {arm.split}"].folder / "steps.parquet")
    said = said[(said["method"] == "red") & (said["seed"] == seed)].set_index(["first", "operator", "second"])
    readable = [program is not None for program in asked.given]
    order = found[readable].sort_values("operations", ascending=False, kind="stable")
    lines = []
    for kind, row in order.drop_duplicates("kind").reset_index().set_index("kind")["index"].items():
        chances = asked.probabilities[row] if len(asked.probabilities) else []
        steps = list(_lines(done, row, asked.given[row], asked.gold[row], said, chances))
        last = steps[-1][0] | {"true_value": found["value"][row]}
        values = [(where, metric, value) for where, metrics in steps for metric, value in metrics.items()]
        values += [(last, "flagged", float(done.flagged[row]))]
        values += [(last, "answer", done.value[row])] if done.value[row] != UNKNOWN else []
        about = {"case": kind, "text": asked.texts[row]}
        lines += [about | where | {"metric": metric, "value": value} for where, metric, value in values]
    return pd.DataFrame(lines)


def explained(rows: pd.DataFrame) -> str:
    """What went wrong in one program of execution_examples, step after step; nothing where nothing did."""
    found = []
    for _, of_step in rows.sort_values("group").groupby("group"):
        line = of_step.iloc[0]
        said = of_step.set_index("metric")["value"]
        operation = f"{line['first']:.0f} {line['operator']} {line['second']:.0f}"
        if line["step"] != line["wanted"]:
            found.append(f"the planner wrote `{line['step']}` where the question says `{line['wanted']}`")
        exact = line["first"] + SIGN[line["operator"]] * line["second"]
        if "value" in said and said["value"] != exact:
            found.append(f"{operation} is {exact:.0f}, and the experts say {said['value']:.0f}")
        if said["outside"]:
            found.append(f"{operation} is outside the experts' domain")
    return "; ".join(found)


def _lines(
    done: Run, row: int, program: Program, gold: Program, said: pd.DataFrame, chances
) -> Iterator[tuple[dict, dict]]:
    """Every executed step of a program: where it stands, and what RED says of it."""
    right = gold.text.split("\n")[:-1]
    for s, line in enumerate(program.text.split("\n")[:-1]):
        if not done.plans.used[row, s]:
            continue
        a, b, sign = int(done.first[row, s]), int(done.second[row, s]), int(done.plans.sign[row, s])
        if UNKNOWN in (a, b):
            continue
        operator = next(name for name, of in SIGN.items() if of == sign)
        metrics = {"outside": float(done.outside[row, s])}
        metrics |= {"value": done.result[row, s]} if done.result[row, s] != UNKNOWN else {}
        if (a, operator, b) in said.index:
            own = said.loc[(a, operator, b)]
            weights = {f"weight_{k + 1}": own[f"alpha_{k + 1}"] for k in range(len(OPERATORS))}
            metrics |= {"confidence": own["confidence"]} | weights
        metrics |= {"probability": chances[s]} if len(chances) else {}
        where = {"group": f"step={s + 1}", "step": line, "operator": operator, "first": a, "second": b}
        where |= {"wanted": right[s] if s < len(right) else "nothing"}
        yield where | {"true_value": a + sign * b}, metrics


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "execution_assembly": assembly_tables,
    "execution_examples": example_tables,
}
