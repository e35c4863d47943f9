"""The profiles: smoke, laptop, full, paper and record."""

from redlib.config.recipes import PlusForm, RedPlus
from redlib.config.sections import (
    Ablations,
    Arithmetic,
    BackboneConfig,
    Decomposer,
    Definition,
    Fair,
    Hardness,
    Modularity,
    Nested,
    Operations,
    PlannerTraining,
    Population,
    Probe,
    Profile,
    Recipe,
    Selection,
    Sparse,
    Task1,
    Task2,
    Training,
)

_TASK2 = Task2(
    definitions={
        "operations": Definition(seeds={"text": 5, "structure": 5}, source_seeds={"text": 1, "structure": 1}),
        "single_heavy": Definition(seeds={"text": 3}, source_seeds={"text": 1}),
        "operands": Definition(rows=16_000, seeds={"text": 1, "structure": 1}),
    }
)

_CHOSEN = Recipe(
    name="chosen",
    layer=4,
    rank=72,
    base=Training(lr=2e-3, batch=64, max_epochs=60, patience=8, monitor="accuracy"),
    experts=Training(lr=3e-3, weight_decay=0.1, batch=64, max_epochs=40, patience=8, monitor="accuracy"),
    routers=Training(lr=1e-3, weight_decay=0.1, batch=256, max_epochs=30, patience=5, monitor="accuracy"),
    controls=Training(lr=1e-3, weight_decay=0.3, batch=256, max_epochs=40, patience=6, monitor="accuracy"),
)
_SOURCE_LOOP = Training(lr=1e-4, batch=64, max_epochs=60, patience=3)
_SOURCE = Recipe(
    name="source",
    layer=-1,
    rank=144,  # d/4, the middle one of the source (4.9.3)
    tuned_layers=2,
    base=_SOURCE_LOOP,
    experts=_SOURCE_LOOP,
    routers=_SOURCE_LOOP,
    controls=_CHOSEN.controls.model_copy(update={"max_epochs": 20}),
)

_LATE = {"batch": 256, "weight_decay": 0.1, "monitor": "accuracy"}
_RED_PLUS = RedPlus(
    task1=PlusForm(
        width=512,
        rank=72,
        base_share=0.5,
        base=Training(lr=2e-3, weight_decay=0.1, batch=128, max_epochs=30, patience=30, monitor="accuracy"),
        experts=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
        routers=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
    ),
    task2=PlusForm(
        width=192,
        layers=2,
        rank=48,
        base_share=1.0,
        base=Training(lr=1e-3, weight_decay=0.01, batch=128, max_epochs=18, patience=18, monitor="accuracy"),
        experts=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
        routers=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
    ),
)


def _plus(task1: dict, task2: dict) -> RedPlus:
    """`red_plus` with other fields of its two forms."""
    return RedPlus(task1=_RED_PLUS.task1.model_copy(update=task1), task2=_RED_PLUS.task2.model_copy(update=task2))


def _shorter(recipe: Recipe, **max_epochs: int) -> Recipe:
    """The recipe with fewer epochs at most, by loop."""
    loops = {name: getattr(recipe, name).model_copy(update={"max_epochs": n}) for name, n in max_epochs.items()}
    return recipe.model_copy(update=loops)


def _tiny(recipe: Recipe, layer: int) -> Recipe:
    short = {"max_epochs": 2, "lr": 2e-3}
    stages = ("base", "experts", "routers", "controls")
    loops = {name: getattr(recipe, name).model_copy(update=short) for name in stages}
    return recipe.model_copy(update={"layer": layer, "rank": 8, "router_hidden": 16, **loops})


def _tiny_plus(form: PlusForm, **fields) -> PlusForm:
    return _tiny(form, layer=2).model_copy(update={"width": 16, **fields})


def _profiles() -> dict[str, Profile]:
    full = Profile(name="full", task2=_TASK2, red_plus=_RED_PLUS, chosen=_CHOSEN, source=_SOURCE)
    laptop = full.model_copy(
        update={
            "name": "laptop",
            "task1": Task1(
                rows=16_000,
                seeds={"text": 3, "structure": 3, "phrasing": 1},
                source_seeds={"text": 1, "structure": 1},
                curve_seeds=1,
                curve_rows=(4_000,),
            ),
            "task2": Task2(definitions={"operations": Definition(rows=16_000, seeds={"text": 3, "structure": 3})}),
            "operations": Operations(rows=8_000, seeds={"text": 2, "structure": 2}, chains=2_000),
            "probe": Probe(rows=3_000, layers=(0, 2, 4, 6, 8, 12, 20, -1), seeds=1),
            "selection": Selection(
                layers=(2, 4, 8), poolings=("mean", "mean_skip_first"), ranks=(36, 72, 144), seeds=1
            ),
            "population": Population(seeds=2),
            "fair": Fair(seeds=2),
            "hardness": Hardness(rows=4_000),
            "arithmetic": Arithmetic(
                rows=2_000, operator_rows=1_250, layers=(0, 4, 8, 12, 20, -1), network_sites=("pooled",), seeds=1
            ),
            "decomposer": Decomposer(
                rows=4_000,
                seeds={"structure": 1},
                training=PlannerTraining(lr=1e-3, max_epochs=16, patience=16, monitor="accuracy"),
            ),
            "nested": Nested(
                seeds=1,
                epochs=14,
                warm_epochs=5,
                arms=("nested", "random"),
                narrow=(32,),
                budgets=(0.15, 0.3, 0.5, 0.75),
                speed_dims=(64, 384),
                speed_budgets=(0.3,),
                repeats=20,
            ),
            "sparse": Sparse(width=64, steps=150, test_rows=300, widths=(64, 256, 1024), expert_counts=(2, 4, 8)),
            "red_plus": _plus({"base_share": 1.0, "seeds": {"structure": 2}}, {"seeds": {"structure": 1}}),
            "chosen": _shorter(_CHOSEN, experts=24, routers=15, controls=12),
            "source": _shorter(_SOURCE, base=6, experts=30, routers=8, controls=12),
        }
    )
    smoke = full.model_copy(
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
                seeds={"text": 1, "structure": 2},
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
                task1=_tiny_plus(_RED_PLUS.task1, seeds={"structure": 2, "phrasing": 1}),
                task2=_tiny_plus(_RED_PLUS.task2, seeds={"structure": 1}, layers=1, heads=2),
            ),
            "chosen": _tiny(_CHOSEN, layer=2),
            "source": _tiny(_SOURCE, layer=-1),
            "bootstrap": 50,
        }
    )
    paper = full.model_copy(
        update={
            "name": "paper",
            "backbone": BackboneConfig(name="qwen3-0.6b"),
            "ablations": Ablations(ranks=(512, 256, 128, 64, 32, 16, 8, 4, 2, 1)),
            "chosen": _CHOSEN.model_copy(update={"rank": 512}),
            "source": _SOURCE.model_copy(update={"rank": 512}),
        }
    )
    record = full.model_copy(update={"name": "record", "reads": "full"})
    return {p.name: p for p in (smoke, laptop, full, paper, record)}


PROFILES = _profiles()
