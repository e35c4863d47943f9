"""Profile laptop: a study of one's own in minutes, on the same backbone."""

from redlib.config.profiles.full import FULL
from redlib.config.recipes import Recipe, RedPlus
from redlib.config.sections import (
    Ablations,
    Arithmetic,
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
    Schedule,
    Selection,
    Sparse,
    Task1,
    Task2,
)

_FEW_PROGRAMS = PlannerTraining(lr=1e-3, max_epochs=8, patience=8, monitor="accuracy")
_FEW_SUMS = FULL.red_plus.task1.base.model_copy(update={"max_epochs": 30, "patience": 30})
_FEW_CHAINS = FULL.red_plus.task2.base.model_copy(update={"max_epochs": 5, "patience": 5})
_FEWER = Ablations().questions | {"text": ("residual", "rank")}


def _plus(**forms: dict) -> RedPlus:
    """`red_plus` with other fields of its forms, by task, and of its other sections."""
    made = {task: getattr(FULL.red_plus, task).model_copy(update=fields) for task, fields in forms.items()}
    return FULL.red_plus.model_copy(update=made)


def _shorter(recipe: Recipe, **max_epochs: int) -> Recipe:
    """The recipe with fewer epochs at most, by loop."""
    loops = {name: getattr(recipe, name).model_copy(update={"max_epochs": n}) for name, n in max_epochs.items()}
    return recipe.model_copy(update=loops)


LAPTOP = FULL.model_copy(
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
        "operations": Operations(rows=8_000, seeds={"text": 1, "structure": 2}, chains=2_000),
        "probe": Probe(rows=3_000, layers=(0, 2, 4, 6, 8, 12, 20, -1), seeds=1),
        "selection": Selection(layers=(2, 4, 8), poolings=("mean", "mean_skip_first"), ranks=(36, 72, 144), seeds=1),
        "population": Population(seeds=2),
        "fair": Fair(seeds=2),
        "hardness": Hardness(rows=4_000),
        "schedule": Schedule(settings=(("operations", "structure"),), layers={}, seeds=2, epochs=40),
        "arithmetic": Arithmetic(
            rows=2_000, operator_rows=1_250, layers=(0, 4, 8, 12, 20, -1), network_sites=("pooled",), seeds=1
        ),
        "decomposer": Decomposer(rows=4_000, seeds={"structure": 1}, training=_FEW_PROGRAMS),
        "modularity": Modularity(seeds=2),
        "ablations": Ablations(
            rows=12_000, questions=_FEWER, experts=(1, 2, 10), ranks=(288, 144, 36, 9, 1), layers=(1, 2, 8)
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
        "sparse": Sparse(width=64, steps=65, test_rows=300, widths=(64, 256, 1024), expert_counts=(2, 4, 8)),
        "red_plus": _plus(
            task1={"seeds": {"structure": 2}, "base": _FEW_SUMS},
            task2={"seeds": {"structure": 1}, "base": _FEW_CHAINS},
            steps={"seeds": {"structure": 2}},
            parts={
                "seeds": 1,
                "epochs": {"task1": 30, "task2": 5},
                "questions": {"task1": ("readout", "data", "router_target")},
                "readouts": ("linear",),
                "data": (3_200,),
            },
            wordings={"groups": (4,), "reads": ((4, "mean"),), "noises": ()},
            beyond={"longer_rows": 500, "wide_rows": 4_000, "data": (3_200,), "seeds": 1, "shifts": 2},
        ),
        "chosen": _shorter(FULL.chosen, experts=24, routers=15, controls=12),
        "source": _shorter(FULL.source, base=6, experts=30, routers=8, controls=12),
    }
)
