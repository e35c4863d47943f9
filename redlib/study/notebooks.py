"""The notebooks of the study, in order: what each one asks and which tables it reads."""

from collections.abc import Iterable
from dataclasses import dataclass

CHAPTERS = ("core", "all")


@dataclass(frozen=True)
class Notebook:
    """One notebook: `question` is what it answers, `tables` the names of the tables that it reads, `optional` those
    that it shows where they are: nobody makes them for it. One that `judges` reads whatever tables there are, and a
    `timed` one what benchmarks recorded."""

    name: str
    question: str
    tables: tuple[str, ...] = ()
    chapter: str = "core"
    optional: tuple[str, ...] = ()
    judges: bool = False
    timed: bool = False


NOTEBOOKS = (
    Notebook("00_start_here", "What is Residual Expert Decomposition, and what is in this study?", ("task1",)),
    Notebook("01_data", "What are the texts, and what can no split of them have?", ("data_checks",)),
    Notebook(
        "02_backbone_and_features",
        "Which depth and pooling of the frozen backbone know the sum?",
        ("probes", "selection"),
    ),
    Notebook("03_global_head", "How far does one linear classifier get?", ("task1", "task1_curves", "task1_bias")),
    Notebook(
        "04_oracle_experts",
        "How good is each expert when the right one is always asked?",
        ("task1", "task1_curves", "task1_epochs"),
    ),
    Notebook(
        "05_uniform_averaging", "What is lost when every expert always has an equal say?", ("task1", "task1_bias")
    ),
    Notebook(
        "06_softmax_mixture",
        "Does a gate trained on the answer choose the right expert?",
        ("task1", "task1_curves", "task1_confusion"),
    ),
    Notebook(
        "07_red",
        "What do routed residual experts add, and what does each part of them do?",
        ("task1", "task1_curves", "task1_epochs", "task1_pairs"),
    ),
    Notebook(
        "08_task1_results",
        "Which claims of the source about Task 1 hold here?",
        ("task1", "task1_bias", "task1_confusion", "task1_pairs", "task1_epochs", "task1_learning"),
    ),
    Notebook(
        "09_task2_results",
        "Which claims of the source about Task 2 hold here?",
        (
            *("task2_checks", "task2", "task2_bias", "task2_confusion", "task2_epochs", "task2_transfer"),
            *("task2_hardness", "schedule"),
        ),
    ),
    Notebook("10_fair_comparison", "Where does the gap between RED and the softmax mixture come from?", ("fair",)),
    Notebook(
        "11_routing",
        "What does the router do, and what happens when it is wrong?",
        ("routing", "routing_curves", "robustness", "routing_definitions"),
    ),
    Notebook(
        "12_boundaries_and_operand_maps",
        "Is RED smooth where a mixture oscillates?",
        (
            *("boundary_sweep", "boundary_sweep_task2", "boundary_smoothness"),
            *("operand_maps", "operand_maps_range", "operand_maps_wordings", "operand_maps_entropy"),
        ),
    ),
    Notebook(
        "13_where_the_arithmetic_is",
        "What does the frozen backbone know of a sum, and do wrong answers follow from it?",
        (
            *("arithmetic_probes", "arithmetic_fourier", "arithmetic_errors", "arithmetic_signed_errors"),
            "arithmetic_agreement",
        ),
    ),
    Notebook(
        "14_routing_case_studies",
        "Does RED route the source's own examples as it reports, and what does it do where it is least sure?",
        ("cases", "case_picks", "case_routes", "case_spread"),
    ),
    Notebook(
        "15_routing_inspector",
        "What does RED do with any question, and what would it do if it were routed otherwise?",
        ("operand_maps", "robustness"),
    ),
    Notebook(
        "16_step_decomposer",
        "Can a planner turn a question into the program that answers it?",
        ("planner", "planner_errors", "planner_curves", "planner_examples", "planner_chains"),
        "all",
    ),
    Notebook(
        "17_modular_execution",
        "Do experts of single operations execute whole programs, and what goes wrong when they do not?",
        (
            *("execution", "execution_budget", "execution_compounding", "execution_steps", "execution_errors"),
            *("execution_domain", "execution_assembly", "execution_examples"),
        ),
        "all",
        optional=("task2",),
    ),
    Notebook(
        "18_modularity",
        "Can experts be removed, replaced and added without touching the rest?",
        ("modularity", "modularity_ranges"),
        "all",
    ),
    Notebook(
        "19_ablations",
        "Which part of RED matters, and how much?",
        ("ablations", "ablations_cost"),
        "all",
        optional=("ablations_tuned", "ablations_tuned_cost", "modularity_ranges"),
        timed=True,
    ),
    Notebook(
        "20_red_plus",
        "What do experts and a router add to a base that knows sums it has not seen?",
        (
            *("red_plus_parts", "red_plus_onset", "red_plus_errors", "red_plus_fourier", "red_plus_beyond"),
            *("red_plus", "red_plus_curves", "red_plus_execution", "red_plus_budget", "red_plus_steps"),
            *("red_plus_wordings", "red_plus_partitions", "red_plus_sweep", "red_plus_smoothness", "red_plus_maps"),
            *("red_plus_routing", "red_plus_routing_curves", "red_plus_robustness"),
        ),
        "all",
    ),
    Notebook(
        "21_cost_and_complexity",
        "What does each method cost, in parameters, FLOPs and memory?",
        ("cost", "cost_curves", "task1", "selection"),
        "all",
        timed=True,
    ),
    Notebook("22_sparse_savings", "How much work do sparse experts save, and against what?", ("cost",), "all"),
    Notebook(
        "23_sparse_against_dense",
        "Are sparse mixtures cheaper to serve than dense transformers of their size?",
        ("sparse_models", "sparse_quality", "sparse_training", "sparse_serving", "sparse_growth", "sparse_time"),
        "all",
    ),
    Notebook(
        "24_nested_experts",
        "What is gained when each part of a picture gets only as much of the network as it is worth?",
        ("nested", "nested_curves", "nested_routing", "nested_maps", "nested_speed", "nested_clock", "routing"),
        "all",
    ),
    Notebook(
        "25_claims",
        "Which claims of the source and of three smaller documents hold here, and why do the others not?",
        judges=True,
    ),
)


def select(
    notebooks: Iterable[Notebook], chapters: str = "core", start: str | None = None, only: str | None = None
) -> tuple[Notebook, ...]:
    """The notebooks of `chapters` ("core" or "all"), from `start` on, or `only` one; ValueError for unknown names, and
    for both a start and only one."""
    notebooks = tuple(notebooks)
    if chapters not in CHAPTERS:
        raise ValueError(f"unknown chapters {chapters!r}; valid chapters: {', '.join(CHAPTERS)}")
    names = [notebook.name for notebook in notebooks]
    for name in filter(None, (start, only)):
        if name not in names:
            raise ValueError(f"unknown notebook {name!r}; valid notebooks: {', '.join(names)}")
    if start and only:
        raise ValueError(f"start at {start} or run {only} only: one of the two")
    if only:
        return tuple(notebook for notebook in notebooks if notebook.name == only)
    first = names.index(start) if start else 0
    return tuple(notebook for notebook in notebooks[first:] if chapters == "all" or notebook.chapter == "core")
