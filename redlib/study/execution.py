"""Programs run through the step tables: who executes what, and what became of every program (the source, 4.8)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from redlib.config import Profile
from redlib.evaluation import NO_ANSWER
from redlib.execution import Look, encode, exposure, outcomes, run, symbolic
from redlib.expressions import Expression, LabelSpace
from redlib.models.executors import EXECUTORS
from redlib.programs import Program
from redlib.study import operations, planner
from redlib.study.data import read_pool
from redlib.study.planner import chains as planner_chains
from redlib.study.settings import Data
from redlib.study.stage import Stage

SYMBOLIC = "symbolic"
METHODS = (*EXECUTORS, SYMBOLIC)
PLANNER = "planner_searched"  # of the ways of decoding, the one whose programs are executed
ITEMS = ["row", "structure", "operations"]
CHAINS = (("closed", "closed"), ("source", "source"), ("closed", "source"))  # domain of the experts, of the chains


@dataclass(frozen=True)
class Arm:
    """Experts of a domain and split that execute programs: the gold ones of a set of chains, or predicted ones."""

    experts: str
    chains: str
    split: str
    program: str = "gold"

    @property
    def variant(self) -> str:
        """domain/program, and the chains where they are not the domain's own."""
        own = f"{self.experts}/{self.program}"
        return own if self.chains == self.experts else f"{own}/chains={self.chains}"


@dataclass(frozen=True, eq=False)
class Asked:
    """N questions of one seed: ITEMS and texts, the programs that are right and those that are executed (None: a
    planner's text that is no program)."""

    items: pd.DataFrame
    texts: Sequence[str]
    gold: Sequence[Program]
    given: Sequence[Program | None]
    probabilities: Sequence[Sequence[float]] = ()  # of a planner: of every line of a program, the answer's last


def planners(profile: Profile, splits: Sequence[str] = ()) -> dict[str, Stage]:
    """What the planners of the profile (or of some splits) write, by split and chains (`asks`), where there are experts
    for it."""
    made, own, wanted = {}, profile.decomposer.chains, splits or operations.splits(profile)
    for split in (split for split in planner.splits(profile) if split in wanted):
        made[asks(split, own)] = planner.predictions_stage(profile, split)
        for chains in planner_chains.others(profile):
            made[asks(split, chains)] = planner_chains.predictions_stage(profile, split, chains)
    return made


def asks(split: str, chains: str) -> str:
    """The planners of a split, asked these chains."""
    return f"{split}, {chains}"


def arms(profile: Profile, predicted: Mapping[str, Stage]) -> list[Arm]:
    """Gold programs for every pair of CHAINS that the profile has, predicted ones where `predicted` has them."""
    known, splits = profile.operations.domains, operations.splits(profile)
    made = [Arm(*pair, split) for pair in CHAINS if set(pair) <= set(known) for split in splits]
    return made + [replace(arm, program="predicted") for arm in made if asks(arm.split, arm.chains) in predicted]


def inputs(profile: Profile, predicted: Mapping[str, Stage], splits: Sequence[str] = ()) -> dict[str, Stage]:
    """The stages that all arms read, or those of some splits."""
    o = profile.operations
    made = {f"chains {name}": operations.chains(profile, name) for name in o.domains}
    for name in o.domains:
        for split in splits or operations.splits(profile):
            made[f"executors {name}, {split}"] = operations.executors_stage(profile, name, split)
    return made | {f"planner {split}": stage for split, stage in predicted.items()}


# ---- what is asked -----------------------------------------------------------------------------------------------


def asked(arm: Arm, stage: Stage) -> list[Asked]:
    """What the arm's executors are asked: gold programs once, a planner's once for each of its seeds, which have test
    rows of their own."""
    if arm.program == "gold":
        pool = read_pool(stage.inputs[f"chains {arm.chains}"].folder)
        programs = [Program.from_expression(Expression.read(text)) for text in pool["expression"]]
        return [Asked(pool[ITEMS], pool["text"].tolist(), programs, programs)]
    read = stage.inputs[f"planner {asks(arm.split, arm.chains)}"]
    said = pd.read_parquet(read.folder / "predictions.parquet")
    said = said[(said["method"] == PLANNER) & (said["part"] == "test")]
    return [_planned(rows.reset_index(drop=True)) for _, rows in said.groupby("seed")]


def _planned(rows: pd.DataFrame) -> Asked:
    gold = [Program.read(text) for text in rows["program"]]
    given = [readable(text) for text in rows["predicted_program"]]
    return Asked(rows[ITEMS], rows["text"].tolist(), gold, given, rows["step_probabilities"].tolist())


def readable(text: str) -> Program | None:
    """The program that a planner wrote, or None where it wrote none."""
    try:
        return Program.read(text)
    except ValueError:
        return None


# ---- what became of it -------------------------------------------------------------------------------------------


def looks(profile: Profile, arm: Arm, stage: Stage) -> list[dict[str, Look]]:
    """The arm's executors as functions of steps, by name, a dict a seed of the experts: those seeds that all executors
    stages of the arm among what the stage reads have."""
    read = [made for name, made in stage.inputs.items() if name.startswith(f"executors {arm.experts}, {arm.split}")]
    frames = [pd.read_parquet(made.folder / "steps.parquet") for made in read]
    seeds = min(frame["seed"].nunique() for frame in frames)
    said = pd.concat([frame[frame["seed"] < seeds] for frame in frames], ignore_index=True)
    ceiling = {SYMBOLIC: symbolic(operations.labels(profile))}
    return [
        {name: table.look(name) for name in table.values} | ceiling for table in operations.step_tables(profile, said)
    ]


def seen(profile: Profile, name: str, split: str) -> list[set[str]]:
    """The structures of the steps in the training rows of a domain and split, a set a seed of the experts."""
    data = Data(operations.setting(profile, name, split))
    return [set(data.pool["structure"].iloc[rows]) for rows in data.rows["train"]]


def answers(profile: Profile, arm: Arm, stage: Stage, methods: Sequence[str] = ()) -> pd.DataFrame:
    """What every executor of an arm (or those called `methods`) makes of every program: a row a program, method and
    seed.

    Columns: those of a frame of predictions (recipe is the arm's variant; NO_ANSWER where there is none or one that is
    no label), operations, unseen, and those of `execution.outcomes`.
    """
    known, space = seen(profile, arm.experts, arm.split), operations.labels(profile)
    within, frames = operations.domain(profile, arm.experts), []
    for seed, turn, question, executors in each_seed(profile, arm, stage):
        plans = encode(question.given)
        items = question.items.assign(unseen=exposure(question.gold, known[turn]), seed=seed)
        for method in methods or executors:
            done = run(plans, executors[method], None if method == SYMBOLIC else within)  # arithmetic knows every step
            found = outcomes(question.gold, question.given, done, space)
            said = found.drop(columns="operations").assign(predicted_value=_answered(found, space), method=method)
            frames.append(pd.concat([items, said], axis=1))
    about = {"split": arm.split, "recipe": arm.variant, "part": "test", "confidence": np.nan, "router_range": -1}
    return pd.concat(frames, ignore_index=True).assign(**about)


def _answered(found: pd.DataFrame, space: LabelSpace) -> pd.Series:
    return found["predicted_value"].where(found["predicted_value"].between(space.lo, space.hi), NO_ANSWER)


def each_seed(profile: Profile, arm: Arm, stage: Stage) -> Iterator[tuple[int, int, Asked, dict[str, Look]]]:
    """Seed, that of the experts, questions and executors: as many seeds as experts or planners have, whichever are
    more; the fewer ones take turns."""
    by_seed, questions = looks(profile, arm, stage), asked(arm, stage)
    for seed in range(max(len(by_seed), len(questions))):
        turn = seed % len(by_seed)
        yield seed, turn, questions[seed % len(questions)], by_seed[turn]
