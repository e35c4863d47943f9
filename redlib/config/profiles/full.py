"""Profile full: the record, and what the other profiles change."""

from redlib.config.recipes import LongTraining, PlusForm, Recipe, RedPlus, Training
from redlib.config.sections import Definition, Profile, Task2

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
_POOLED = PlusForm(
    width=512,
    rank=72,
    base_share=1.0,
    base=LongTraining(lr=2e-3, weight_decay=0.1, batch=128, max_epochs=30, patience=30, monitor="accuracy"),
    experts=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
    routers=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
)
_NOISY = _POOLED.base.model_copy(update={"max_epochs": 60, "patience": 60})
_RED_PLUS = RedPlus(
    # rank 8: the smallest of red_plus_parts, none of which is measurably better
    task1=_POOLED.model_copy(update={"pooling": "mean_two_depths", "noise": 0.5, "rank": 8, "base": _NOISY}),
    task2=PlusForm(
        width=192,
        layers=2,
        rank=48,
        base_share=1.0,
        ending="turns",
        base=LongTraining(
            lr=4e-3,
            weight_decay=0.5,
            batch=128,
            max_epochs=14,
            patience=14,
            monitor="accuracy",
            optimiser="muon",
        ),
        seeds={"structure": 2, "text": 1, "phrasing": 1},
        experts=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
        routers=Training(lr=1e-3, max_epochs=20, patience=5, **_LATE),
    ),
    steps=_POOLED.model_copy(update={"seeds": {"structure": 5}}),
)

FULL = Profile(
    name="full",
    task2=_TASK2,
    red_plus=_RED_PLUS,
    chosen=_CHOSEN,
    source=_SOURCE,
)
