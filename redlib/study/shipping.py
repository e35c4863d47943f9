"""The models that are shipped: which ones, in which precision, and how each is written from a profile's trained stages.

`PLAN` is the table of what is shipped. A part that is not `exact` is kept in bfloat16, which halves it: what that does
to the answers is measured and noted in its passport, and as `agreement` in the index.
"""

import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from redlib import decomposer, models, modules
from redlib.config import Profile
from redlib.features import Point
from redlib.models.executors import BASE, ORACLE, executor
from redlib.study import methods, operations, planner, red_plus, task1, task2
from redlib.study.data import feature_set, open_backbone
from redlib.study.red_plus import steps as red_plus_steps
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage

MODULES, STRUCTURES = "modules.safetensors", "structures.txt.xz"
SEED = 0
COMPARED = 200  # test rows whose answers are compared before and after
PLUS, PLANNER, STEPS = "red_plus", "planner", "steps"
LARGE = ("mlp_full_data",)  # as large as RED itself, and second to the Fourier network everywhere
RED = ("base", "classifier", "experts", "router")


@dataclass(frozen=True)
class Item:
    """One model to ship. `exact`: parts that are kept as they are, all others in bfloat16; `without`: methods whose
    parts are left out."""

    task: str
    recipe: str
    split: str = "structure"
    domain: str = ""
    exact: tuple[str, ...] = ()
    without: tuple[str, ...] = LARGE

    @property
    def name(self) -> str:
        """What it is called among the shipped ones: `task1-chosen-structure`."""
        return "-".join(word for word in (self.task, self.domain, self.recipe, self.split) if word)

    def setting(self, profile: Profile) -> Setting:
        """What it is trained as; a planner has no setting."""
        plus = self.recipe == PLUS
        if self.task == STEPS:
            return (red_plus_steps if plus else operations).setting(profile, self.domain, self.split)
        if plus:
            return red_plus.setting(profile, self.task, self.split)
        return (task1 if self.task == "task1" else task2).setting(profile, self.recipe, self.split)

    def seeds(self, profile: Profile) -> int:
        """How many seeds the profile trains."""
        if self.task == PLANNER:
            return profile.decomposer.seeds.get(self.split, 0)
        known = self.task != STEPS or self.domain in profile.operations.domains
        return self.setting(profile).seeds if known else 0

    def stages(self, profile: Profile) -> list[Stage]:
        """The stages that it is written from."""
        if self.task == PLANNER:
            return [planner.trained_stage(profile, self.split, SEED)]
        s = self.setting(profile)
        made = red_plus.part_stages(s, SEED) if self.recipe == PLUS else methods.part_stages(s)
        return list(made.values())


PLAN = (
    # the models of chapters 07 to 15: RED's own parts bit for bit, the rest rounded
    *(Item(task, "chosen", split, exact=RED) for split in ("structure", "text") for task in ("task1", "task2")),
    Item("task1", "source", "structure", without=(*LARGE, "fourier_full_data")),  # its two tuned layers are 14 MB
    *(Item(task, PLUS, exact=("classifier",)) for task in ("task1", "task2")),
    # what `solve` needs: steps of the domain that chains never leave, by operation
    Item(PLANNER, "", without=()),
    Item(STEPS, "chosen", domain="closed", exact=("base", "classifier"), without=()),
    Item(STEPS, PLUS, domain="closed", exact=("classifier",), without=()),
)


def write_model(item: Item, profile: Profile, out: Path) -> dict[str, Any]:
    """One model's files; its entry of the index, to which the caller adds size and digest."""
    about = {"task": item.task, "recipe": item.recipe or item.task, "split": item.split, "seed": SEED}
    about |= {"profile": profile.name, "backbone": profile.backbone.name}
    return about | (_write_planner if item.task == PLANNER else _write_parts)(item, profile, out)


def _write_parts(item: Item, profile: Profile, out: Path) -> dict[str, Any]:
    bone, s = open_backbone(profile.backbone), item.setting(profile)
    data = Data(s)
    wanted = [name for name in s.methods if name not in item.without]
    trained = red_plus.load_parts(s, SEED) if item.recipe == PLUS else methods.load_parts(s, SEED, bone)
    parts = {name: trained[name] for name in sorted({"base"} | models.needs(wanted))}
    before, lead = _said(item, s, data, parts), PLUS if item.recipe == PLUS else "red"
    about = s.passport(SEED) | {"recipe": item.recipe, "profile": profile.name}
    about |= {"metrics": _metrics(lead, s, data, before)}
    test = data.pool["text"].iloc[data.rows["test"][SEED]].tolist()
    place, states = (s.recipe.layer, s.recipe.pooling, s.recipe.tuned_layers), _layer_of_states(s)
    probe = modules.Probe.of(bone, test, *place, states=states)
    half = [name for name in parts if name not in item.exact]
    modules.save(out / MODULES, parts, about, PLUS if lead == PLUS and s.K == s.labels.K else None, probe, half)
    after = _said(item, s, data, modules.load(out / MODULES, bone)[0])
    keys = sorted(set(data.pool["structure"].iloc[data.rows["train"][SEED]]))
    (out / STRUCTURES).write_bytes(lzma.compress("\n".join(keys).encode()))
    return {
        "definition": s.definition,
        "weights_id": about["weights_id"],
        "methods": [*wanted, *((ORACLE, BASE) if item.task == STEPS and lead == "red" else ())],
        "structures": len(keys),
        "agreement": float((before == after).mean()),
    }


def _layer_of_states(s: Setting) -> int | None:
    """The layer whose token states light layers read; None for a base that reads something else."""
    return s.recipe.layer if getattr(s.recipe, "layers", 0) else None


@torch.no_grad()
def _said(item: Item, s: Setting, data: Data, parts: Mapping[str, nn.Module]) -> np.ndarray:
    """The answers (n,) of RED, or `red_plus`, as classes to the compared test rows."""
    rows, lead = data.rows["test"][SEED][:COMPARED], PLUS if item.recipe == PLUS else "red"
    of_tokens = s.recipe.tuned_layers or _layer_of_states(s) is not None
    x = feature_set(s.features).states().batch(rows) if of_tokens else data.x[rows].cpu()
    parts = dict(parts)
    method = executor(lead, s.labels, parts, s.K) if item.task == STEPS else models.assemble(lead, s.labels, parts)
    return method(x).logits.argmax(-1).numpy()


def _metrics(lead: str, s: Setting, data: Data, said: np.ndarray) -> dict[str, float]:
    """Value and range accuracy on the compared test rows, for the passport."""
    rows = data.rows["test"][SEED][:COMPARED]
    value, ranges = data.value[rows].numpy(), data.range[rows].numpy()
    right = {"value": said == value, "range": np.array(s.labels.range_index)[said] == ranges}
    accuracies = {f"{lead}_{name}_accuracy": round(float(hit.mean()), 4) for name, hit in right.items()}
    return accuracies | {"test_rows": len(rows)}


def _write_planner(item: Item, profile: Profile, out: Path) -> dict[str, Any]:
    bone = open_backbone(profile.backbone)
    made = planner.load(profile, item.split, SEED)
    records = planner.test_records(profile, item.split, SEED).iloc[:COMPARED]
    texts, gold = records["text"].tolist(), records["program"].to_numpy()
    before = np.array([plan.written for plan in made.decompose_all(texts)])
    about = planner.passport(profile, bone, item.split, SEED) | {"task": PLANNER, "definition": ""}
    about |= {"metrics": {"program_exact": round(float((before == gold).mean()), 4), "test_rows": len(texts)}}
    whole = decomposer.Planner(bone, made.grammar, made.writer, about)
    whole.save(out / MODULES, planner.probe_texts(bone, records), half=True)
    after = np.array([plan.written for plan in decomposer.load(out / MODULES, bone).decompose_all(texts)])
    agreement = float((before == after).mean())
    return {"definition": "", "weights_id": bone.weights_id, "methods": [], "structures": 0, "agreement": agreement}


# ---- opening what is shipped -------------------------------------------------------------------------------------


def open_parts(folder: Path, backbone: Any, **wanted: Any) -> tuple[dict[str, nn.Module], dict[str, Any], Point]:
    """Parts and passport of a shipped model, and where its base reads; refusals as `modules.load`."""
    parts, passport = modules.load(folder / MODULES, backbone, **wanted)
    return parts, passport, Point(passport["layer"], passport["pooling"])


def structures(folder: Path) -> list[str]:
    """The structures of a shipped model's training rows; FileNotFoundError or ValueError names a file that is missing
    or damaged."""
    file = folder / STRUCTURES
    if not file.is_file():
        raise FileNotFoundError(f"{folder.name} in {folder.parent} has no {STRUCTURES}")
    try:
        return lzma.decompress(file.read_bytes()).decode().split("\n")
    except (lzma.LZMAError, EOFError, ValueError):
        raise ValueError(f"{STRUCTURES} of {folder.name} in {folder.parent} is damaged") from None
