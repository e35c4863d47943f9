"""What tests of the decomposer share: sizes, passports, and texts with their programs."""

from hypothesis import strategies as st

from redlib import decomposer, modules
from redlib.decomposer import Sequences
from redlib.expressions import LabelSpace
from redlib.features import token_states
from redlib.programs import Program, Step

MOST, LARGEST = 4, 100
GREEDILY = ("grounded", "grammatical", "unrestricted")


def passport(bone, **changes):
    return {
        "weights_id": bone.weights_id,
        "backbone": bone.name,
        "top_layers": bone.layers - bone.boundary,
        "max_operations": MOST,
        "largest": LARGEST,
        "split": "text",
        "seed": 0,
        "recipe": "planner",
        "layer": bone.boundary,
        "pooling": "none",
        "labels": LabelSpace(),
        "tokenizer": modules.tokenizer_id(bone),
        "dtype": "float32",
        "data": {},
        "training": {},
        "metrics": {},
        "versions": {},
        "licence": "MIT",
    } | changes


def sequences_of(planner, texts, programs):
    bone = planner.backbone
    states = token_states(bone, decomposer.spelled(bone, texts, programs), bone.boundary)
    return Sequences.of(bone, planner.grammar, texts, programs, states)


def programs_of(draw):
    """A valid program with any operands, a chain or not."""
    steps = []
    for k in range(draw(st.integers(1, MOST))):
        operand = st.integers(0, LARGEST)
        operand = operand | st.sampled_from([f"x{j + 1}" for j in range(k)]) if k else operand
        steps.append(Step(draw(operand), draw(st.sampled_from("+-")), draw(operand)))
    return Program(tuple(steps), f"x{draw(st.integers(1, len(steps)))}")
