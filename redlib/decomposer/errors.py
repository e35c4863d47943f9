"""How a planner's program differs from the right one: one kind an error, so that shares add up."""

from collections import Counter

from redlib.programs import Program

RIGHT = "right"
KINDS = ("operand", "operator", "order", "length", "several", "no_program")


def kind(predicted: Program | None, gold: Program) -> str:
    """RIGHT for the same text, else one of `KINDS`.

    `no_program`: the text is none; `length`: another number of steps; `operand`: other numbers, operators alike;
    `operator`: another operator, all numbers where they should be; `order`: the same numbers and operators (or the same
    signed numbers), put together otherwise; `several`: more than one of these.
    """
    if predicted is None:
        return "no_program"
    if predicted == gold:
        return RIGHT
    if len(predicted.steps) != len(gold.steps):
        return "length"
    numbers, operators = zip(*map(_parts, (predicted, gold)), strict=True)
    if Counter(numbers[0]) != Counter(numbers[1]):
        return "operand" if operators[0] == operators[1] else "several"
    if operators[0] == operators[1] or predicted.meaning == gold.meaning:
        return "order"
    return "operator" if numbers[0] == numbers[1] else "several"


def _parts(program: Program) -> tuple[list[int], list[str]]:
    """The numbers of a program and its operators, in order."""
    numbers = [operand for step in program.steps for operand in step.operands if isinstance(operand, int)]
    return numbers, [step.operator for step in program.steps]


def read(text: str) -> Program | None:
    """The program that a text states, None where it states none."""
    try:
        return Program.read(text)
    except ValueError:
        return None
