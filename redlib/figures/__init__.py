"""Every figure of the study: one `draw_x(frame, ...)` each, from the committed tables; `save` writes PNG and SVG.

A frame is the table that the function names; every function selects its own rows and fails by name when they are
missing. `profile` and `backbone` go into the subtitle, `note` into a visible band (a smoke run's warning).
"""

from redlib.figures.ablations import draw_ablation, setting_name, tell_ablation
from redlib.figures.arithmetic import (
    draw_error_kinds,
    draw_fourier_map,
    draw_probe_sites,
    draw_probe_targets,
    draw_signed_errors,
)
from redlib.figures.boundaries import (
    draw_accuracy_by_value,
    draw_boundary_zoom,
    draw_curves_by_value,
    draw_smoothness,
)
from redlib.figures.cases import (
    draw_case_parts,
    draw_case_picks,
    draw_case_spread,
    draw_case_weights,
    draw_explanation,
    draw_walk,
)
from redlib.figures.circles import draw_value_circles, value_circles
from redlib.figures.claims import draw_claims
from redlib.figures.cost import (
    draw_break_even,
    draw_memory,
    draw_parameters_by_rank,
    draw_pareto,
    draw_rank_pareto,
    draw_savings,
    draw_shares,
)
from redlib.figures.differences import draw_differences
from redlib.figures.execution import (
    draw_compounding,
    draw_error_budget,
    draw_execution,
    draw_executor_maps,
    draw_leaving,
    draw_step_maps,
    draw_unseen_steps,
)
from redlib.figures.fair import draw_arms, draw_path, path_steps
from redlib.figures.foundations import (
    draw_data_balance,
    draw_learning_curve,
    draw_pair_counts,
    draw_probe_depth,
    draw_selection,
    draw_training_curves,
)
from redlib.figures.modularity import change_name, draw_modularity, draw_numbers_of_ranges
from redlib.figures.nested import (
    draw_accuracy_clock,
    draw_accuracy_flops,
    draw_capacities,
    draw_clutter,
    draw_mask_agreement,
    draw_nested_block,
    draw_nested_speed,
    draw_token_maps,
)
from redlib.figures.pair_maps import draw_pair_maps
from redlib.figures.planner import draw_planner_curves, draw_planner_errors, draw_programs
from redlib.figures.red_plus import draw_onset, draw_red_plus
from redlib.figures.red_plus_beyond import (
    draw_plus_components,
    draw_plus_errors,
    draw_plus_lengths,
    draw_plus_partitions,
    draw_plus_wide,
)
from redlib.figures.red_plus_parts import draw_plus_parts, draw_plus_rows, draw_plus_wordings, part_name
from redlib.figures.routing import (
    draw_boundary_distance,
    draw_expert_load,
    draw_regret,
    draw_reliability,
    draw_robustness,
    draw_selective_accuracy,
)
from redlib.figures.sparse import draw_growth, draw_protocols, draw_quality_speed, draw_time_parts
from redlib.figures.style import save
from redlib.figures.task1 import (
    draw_accuracy_by_range,
    draw_bias_by_value,
    draw_memorisation_gap,
    draw_operand_map,
    draw_range_confusion,
    draw_reported_beside_measured,
    draw_router_reliability,
)
from redlib.figures.task2 import (
    draw_accuracy_by_kind,
    draw_definitions,
    draw_reported_by_definition,
    draw_router_by_part,
    draw_transfer,
    kind_name,
)
from redlib.figures.toy import draw_toy_mixing, toy_mixing

NO_EVIDENCE = "machinery only, no evidence"

__all__ = [
    "NO_EVIDENCE",
    "change_name",
    "draw_ablation",
    "draw_accuracy_by_kind",
    "draw_accuracy_by_range",
    "draw_accuracy_by_value",
    "draw_accuracy_clock",
    "draw_accuracy_flops",
    "draw_arms",
    "draw_bias_by_value",
    "draw_boundary_distance",
    "draw_boundary_zoom",
    "draw_break_even",
    "draw_capacities",
    "draw_case_parts",
    "draw_case_picks",
    "draw_case_spread",
    "draw_case_weights",
    "draw_claims",
    "draw_clutter",
    "draw_compounding",
    "draw_curves_by_value",
    "draw_data_balance",
    "draw_definitions",
    "draw_differences",
    "draw_error_budget",
    "draw_error_kinds",
    "draw_execution",
    "draw_executor_maps",
    "draw_expert_load",
    "draw_explanation",
    "draw_fourier_map",
    "draw_growth",
    "draw_learning_curve",
    "draw_leaving",
    "draw_mask_agreement",
    "draw_memorisation_gap",
    "draw_memory",
    "draw_modularity",
    "draw_nested_block",
    "draw_nested_speed",
    "draw_numbers_of_ranges",
    "draw_onset",
    "draw_operand_map",
    "draw_pair_counts",
    "draw_pair_maps",
    "draw_parameters_by_rank",
    "draw_pareto",
    "draw_path",
    "draw_planner_curves",
    "draw_planner_errors",
    "draw_plus_components",
    "draw_plus_errors",
    "draw_plus_lengths",
    "draw_plus_partitions",
    "draw_plus_parts",
    "draw_plus_rows",
    "draw_plus_wide",
    "draw_plus_wordings",
    "draw_probe_depth",
    "draw_probe_sites",
    "draw_probe_targets",
    "draw_programs",
    "draw_protocols",
    "draw_quality_speed",
    "draw_range_confusion",
    "draw_rank_pareto",
    "draw_red_plus",
    "draw_regret",
    "draw_reliability",
    "draw_reported_beside_measured",
    "draw_reported_by_definition",
    "draw_robustness",
    "draw_router_by_part",
    "draw_router_reliability",
    "draw_savings",
    "draw_selection",
    "draw_selective_accuracy",
    "draw_shares",
    "draw_signed_errors",
    "draw_smoothness",
    "draw_step_maps",
    "draw_time_parts",
    "draw_token_maps",
    "draw_toy_mixing",
    "draw_training_curves",
    "draw_transfer",
    "draw_unseen_steps",
    "draw_value_circles",
    "draw_walk",
    "kind_name",
    "part_name",
    "path_steps",
    "save",
    "setting_name",
    "tell_ablation",
    "toy_mixing",
    "value_circles",
]
