"""The arms of the fair comparison: one change an arm, and arms compute what they say."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import models
from redlib.models import LabelSpace, LinearBank, MLPBank, ResidualExperts
from redlib.models.arms import (
    ARMS,
    CHOICES,
    CROSSED,
    PATH,
    PUBLIC_PATH,
    TRAINED,
    Arm,
    ArmModel,
    MixedLogits,
    SoloExperts,
    crossed,
)
from redlib.study import fair

LABELS = LabelSpace(2, 13, (5, 9))  # K = 3, C = 12
D = 6


def toy(arm: Arm, seed: int = 0) -> dict:
    """Random parts for an arm over LABELS; no expert says nothing, as an untrained residual one would."""
    draw = torch.Generator().manual_seed(seed)
    K, C = LABELS.K, LABELS.C
    kinds = {"residual": lambda: ResidualExperts(range(K), D, 4), "mlp": lambda: MLPBank(range(K), D, 5, C)}
    kinds["linear"] = lambda: LinearBank(range(K), D, C)
    experts = kinds[arm.experts.split("_")[0]]()
    for p in experts.parameters():
        p.data.normal_(generator=draw)
    hidden = 7 if arm.router == "two_layer" else 0
    router = MLPBank([seed], D, hidden, K)
    return {
        "base": torch.nn.Identity(),
        "classifier": LinearBank([seed + 1], D, C),
        "experts": experts,
        "router": router,
    }


def inputs(seed: int, rows: int = 9) -> torch.Tensor:
    return 3 * torch.randn(rows, D, generator=torch.Generator().manual_seed(seed))


# ---- the arms as data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ARMS if name != "red"])
def test_an_arm_differs_from_its_reference_in_exactly_one_setting(name):
    arm = ARMS[name]
    assert arm.name == name
    assert len(arm.changes(ARMS[arm.reference])) == 1


def test_no_two_arms_are_the_same_system():
    systems = {tuple(getattr(arm, field) for field in CHOICES) for arm in ARMS.values()}
    assert len(systems) == len(ARMS)


def test_every_setting_of_red_is_changed_alone_to_every_value_that_makes_sense_with_the_rest():
    changes = [arm.changes(ARMS["red"]) for arm in ARMS.values() if arm.name != "red"]
    alone = {item for change in changes if len(change) == 1 for item in change.items()}
    wanted = {(field, value) for field, values in CHOICES.items() for value in values[1:]}
    assert wanted - alone == {("experts", "residual_alone"), ("experts", "mlp_on_base"), ("weights", "all")}
    assert {item for change in changes for item in change.items()} == wanted


@pytest.mark.parametrize("path", [PATH, PUBLIC_PATH])
def test_a_path_goes_from_arm_to_arm_by_single_changes(path):
    for before, after in pairwise(path):
        assert ARMS[after].reference == before
    assert PATH[0] == "red"
    assert "softmax_moe" in PATH


@pytest.mark.parametrize("field", CHOICES)
def test_an_unknown_setting_is_refused_with_the_valid_ones(field):
    with pytest.raises(ValueError, match=f"arm 'odd': unknown {field} 'other'; valid: .*{CHOICES[field][-1]}"):
        Arm("odd", **{field: "other"})


def test_every_kind_of_expert_says_how_it_is_trained():
    assert set(TRAINED) == set(CHOICES["experts"])
    assert set(fair.EXPERTS) < set(TRAINED)


@given(st.integers(8, 600), st.integers(1, 300), st.integers(2, 120))
def test_a_head_with_a_hidden_layer_has_the_parameters_of_a_residual_expert(d, rank, C):
    width = fair.hidden_width(d, rank, C)
    own, other = models.count(MLPBank([0], d, width, C)), models.count(ResidualExperts([0], d, rank))
    assert width == 1 or abs(own - other) <= (d + 1 + C) / 2


def test_the_crossing_has_an_arm_for_every_combination():
    cells = crossed()
    assert len(cells) == len(set(cells.values())) == 8
    assert cells["kept", 1.0, "range"] == "red"
    for levels, name in cells.items():
        assert tuple(getattr(ARMS[name], setting) for setting in CROSSED) == levels
        assert ARMS[name].changes(ARMS["red"]).keys() <= CROSSED.keys()


# ---- what an arm computes ----------------------------------------------------------------------------------------


def directly(arm: Arm, parts: dict, x: torch.Tensor, scale: float) -> torch.Tensor:
    """The arm's logits, row by row and expert by expert."""
    W, b = parts["classifier"].weight[0], parts["classifier"].bias[0, 0]
    experts, router = parts["experts"], parts["router"]
    rows = []
    for h in x:
        scores = h if router.first is None else F.gelu(h @ router.first.weight[0] + router.first.bias[0, 0])
        scores = scores @ router.last.weight[0] + router.last.bias[0, 0]
        alpha = {
            "soft": scores.softmax(0),
            "top1": F.one_hot(scores.argmax(), LABELS.K).float(),
            "uniform": torch.full((LABELS.K,), 1 / LABELS.K),
            "all": torch.ones(LABELS.K),
        }[arm.weights]
        said = sum(alpha[k] * experts(h[None])[k, 0] for k in range(LABELS.K)) * scale
        if arm.experts.startswith("residual"):
            rows.append((h + said if arm.base_term == "kept" else said) @ W + b)
        else:
            rows.append(h @ W + b + said if arm.base_term == "kept" else said)
    return torch.stack(rows)


@pytest.mark.parametrize("name", ARMS)
@torch.no_grad()
def test_an_arm_answers_what_a_direct_computation_does(name):
    arm, x = ARMS[name], inputs(3)
    parts = toy(arm, seed=1)
    scale = 0.37 if arm.scale == "learned" else arm.scale
    model = ArmModel(LABELS, parts, arm, scale if arm.scale == "learned" else None)
    torch.testing.assert_close(model(x).logits, directly(arm, parts, x, scale), rtol=1e-4, atol=1e-4)


@settings(max_examples=60)
@given(st.sampled_from([name for name in ARMS if ARMS[name].weights != "all"]), st.integers(0, 10_000))
@torch.no_grad()
def test_with_weights_that_sum_to_one_an_arm_is_the_mixture_of_its_experts_logits(name, seed):
    arm = replace(ARMS[name], scale=1.0 if ARMS[name].scale == "learned" else ARMS[name].scale)
    parts, x = toy(arm, seed), inputs(seed)
    output = ArmModel(LABELS, parts, arm)(x)
    each = SoloExperts(arm, parts["experts"], parts["classifier"])(x)
    assert each.shape == (LABELS.K, len(x), LABELS.C)
    torch.testing.assert_close(output.alpha.sum(1), torch.ones(len(x)))
    torch.testing.assert_close(output.logits, models.mix(output.alpha, each), rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_with_every_expert_at_weight_one_it_is_no_mixture():
    arm, x = ARMS["public_all"], inputs(5)
    parts = toy(arm)
    output = ArmModel(LABELS, parts, arm)(x)
    assert torch.equal(output.alpha, torch.ones(len(x), LABELS.K))
    mixed = models.mix(output.alpha, SoloExperts(arm, parts["experts"], parts["classifier"])(x))
    assert not torch.allclose(output.logits, mixed, atol=0.1)


@torch.no_grad()
def test_the_gate_in_training_mixes_the_given_logits_as_the_arm_will():
    arm, x = ARMS["router_answer"], inputs(2)
    parts = toy(arm)
    each = SoloExperts(arm, parts["experts"], parts["classifier"])(x).transpose(0, 1)[None]
    mixed = MixedLogits(parts["base"], parts["router"])(x, each)[0]
    torch.testing.assert_close(mixed, ArmModel(LABELS, parts, arm)(x).logits, rtol=1e-4, atol=1e-4)


def test_a_router_for_another_number_of_experts_is_refused():
    parts = toy(ARMS["red"]) | {"router": MLPBank([0], D, 7, LABELS.K + 1)}
    with pytest.raises(ValueError, match="arm 'red': the router chooses among 4 experts, but there are 3"):
        ArmModel(LABELS, parts, ARMS["red"])


def test_too_few_experts_the_wrong_kind_and_a_missing_scale_are_refused():
    parts = toy(ARMS["red"])
    with pytest.raises(ValueError, match="experts holds 2 members, but the label space has K=3 ranges"):
        ArmModel(LABELS, parts | {"experts": models.take(parts["experts"], [0, 1])}, ARMS["red"])
    with pytest.raises(ValueError, match="arm 'experts_mlp' needs experts of kind 'mlp', got a ResidualExperts"):
        ArmModel(LABELS, parts, ARMS["experts_mlp"])
    with pytest.raises(ValueError, match="arm 'scale_learned' has a learned scale; pass its value as scale"):
        ArmModel(LABELS, parts, ARMS["scale_learned"])
