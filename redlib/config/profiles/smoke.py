"""Profile smoke: the machinery in seconds, on a tiny random backbone; never a result."""

from redlib.config.profiles.full import FULL
from redlib.config.recipes import PlusBeyond, PlusForm, PlusParts, PlusWordings, Recipe, RedPlus, Training
from redlib.config.sections import (
    Ablations,
    Arithmetic,
    BackboneConfig,
    Decomposer,
    Definition,
    Hardness,
    Modularity,
    Nested,
    Operations,
    PlannerTraining,
    Population,
    Probe,
    Schedule,
    Selection,
    Sparse,
    Task1,
    Task2,
)


def _plus(**forms: dict) -> RedPlus:
    """`red_plus` with other fields of its forms, by task, and of its other sections."""
    made = {task: getattr(FULL.red_plus, task).model_copy(update=fields) for task, fields in forms.items()}
    return FULL.red_plus.model_copy(update=made)


def _tiny(recipe: Recipe, layer: int) -> Recipe:
    short = {"max_epochs": 2, "lr": 2e-3}
    stages = ("base", "experts", "routers", "controls")
    loops = {name: getattr(recipe, name).model_copy(update=short) for name in stages}
    return recipe.model_copy(update={"layer": layer, "rank": 8, "router_hidden": 16, **loops})


def _tiny_plus(form: PlusForm, **fields) -> PlusForm:
    return _tiny(form, layer=2).model_copy(update={"width": 16, **fields})


SMOKE = FULL.model_copy(
    update={
        "name": "smoke",
        "evidence": False,
        "backbone": BackboneConfig(name="tiny"),
        "task1": Task1(
            rows=500,
            seeds={"text": 2, "structure": 2, "phrasing": 1},
            source_seeds={"text": 1, "structure": 1},
            curve_rows=(200,),
        ),
        "task2": Task2(
            definitions={
                "operations": Definition(rows=500, seeds={"text": 1, "structure": 1}, source_seeds={"text": 1}),
                "single_heavy": Definition(rows=500, seeds={"text": 1}),
            }
        ),
        "operations": Operations(
            rows=300,
            seeds={"text": 1, "structure": 1},
            chains=150,
            rank=8,
            experts=Training(lr=2e-3, max_epochs=2, patience=2),
        ),
        "modularity": Modularity(seeds=2, ranges=(1, 2, 5)),
        "ablations": Ablations(
            rows=500,
            seeds=2,
            tuned_seeds=1,
            questions={
                "structure": ("residual", "experts", "rank", "readout", "weights", "order"),
                "text": ("rank",),
            },
            experts=(1, 2),
            layers=(1, -1),
            ranks=(16, 4, 1),
            readout_hidden=16,
            top=(1,),
        ),
        "probe": Probe(
            rows=250,
            layers=(0, 2, -1),
            hidden=16,
            seeds=1,
            training=Training(batch=128, max_epochs=2),
        ),
        "selection": Selection(layers=(1, 2), poolings=("mean", "last"), ranks=(4, 8), seeds=1),
        "population": Population(wordings=2, seeds=1),
        "hardness": Hardness(rows=250),
        "schedule": Schedule(settings=(("operations", "structure"),), layers={}, seeds=1, epochs=2),
        "arithmetic": Arithmetic(
            rows=250,
            operator_rows=250,
            layers=(0, 2, -1),
            hidden=16,
            seeds=1,
            training=Training(batch=128, max_epochs=2),
        ),
        "decomposer": Decomposer(
            rows=300,
            seeds={"text": 1, "structure": 1},
            training=PlannerTraining(lr=3e-3, batch=32, micro_batch=32, max_epochs=2),
        ),
        "nested": Nested(
            digits="sklearn",
            limit=300,
            canvas=16,
            patch=4,
            distractors=3,
            dim=16,
            layers=2,
            heads=2,
            seeds=2,
            views=2,
            test_views=2,
            epochs=2,
            warm_epochs=0.6,
            router_epochs=0.3,
            narrow=(8,),
            budgets=(0.15, 0.3, 0.5, 0.95),
            shown=2,
            speed_dims=(16, 32),
            speed_budgets=(0.3,),
            speed_batch=8,
            repeats=3,
        ),
        "sparse": Sparse(
            width=16,
            layers=1,
            steps=6,
            training=Training(lr=3e-3, batch=8),
            seeds=2,
            test_rows=20,
            prompt=8,
            prompts=(4,),
            new=2,
            batches=(1, 2),
            repeats=2,
            widths=(16, 32),
            expert_counts=(2, 4),
            pretrained=("tiny",),
        ),
        "red_plus": RedPlus(
            task1=_tiny_plus(FULL.red_plus.task1, seeds={"structure": 2, "phrasing": 1}),
            task2=_tiny_plus(FULL.red_plus.task2, seeds={"structure": 1}, layers=1, heads=2),
            steps=_tiny_plus(FULL.red_plus.steps, seeds={"structure": 1}),
            parts=PlusParts(
                rows={"task1": 500, "task2": 500},
                seeds=1,
                epochs={"task1": 2, "task2": 2},
                questions={"task1": ("readout", "data", "adapter", "router_target", "experts")},
                readouts=("digits",),
                data=(200,),
                router_targets=("both",),
                experts=(2,),
            ),
            wordings=PlusWordings(groups=(4, 5), reads=((2, "mean"),), noises=(0.0,)),
            beyond=PlusBeyond(longer_rows=50, wide_rows=250, data=(100,), seeds=1, widths=(20, 33), shifts=2),
        ),
        "chosen": _tiny(FULL.chosen, layer=2),
        "source": _tiny(FULL.source, layer=-1),
        "bootstrap": 50,
    }
)
