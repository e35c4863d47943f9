"""What stands around an operator wording: an opener and an ending, chosen by the wording's form."""

from collections.abc import Iterator

GROUPS = 10

# Frames: form -> blocks; in a block every opener goes with every ending. Each entry is (id, words).
_ASK_NUMBER = (("", "?"), ("give", "? Give the number."))
_ASK_NOUN = (
    ("what_is", "What is "),
    ("whats", "What's "),
    ("so", "So what is "),
    ("how_much", "How much is "),
    ("tell_me", "Tell me, what is "),
)
_DO_NOUN = (
    ("compute", "Compute "),
    ("calculate", "Calculate "),
    ("find", "Find "),
    ("work_out", "Work out "),
    ("please_compute", "Please compute "),
)
_TASK = ((_DO_NOUN, (("", "."), ("give", ". Give the number."))),)
_NOUN = ((_ASK_NOUN, _ASK_NUMBER), *_TASK)
_BARE = ((("bare", ""),), (("", ""), ("equals", " = ?"), ("what", " equals what?")))
_VERB = (
    (
        (("do", ""), ("please", "Please "), ("now", "Now ")),
        (("", "."), ("result", ". What is the result?"), ("get", ". What do you get?")),
    ),
    (
        (
            ("get_if", "What do you get if you "),
            ("when", "What is the result when you "),
            ("could", "Could you "),
        ),
        _ASK_NUMBER,
    ),
    (
        (("if", "If you "), ("once", "When you ")),
        (("get", ", what do you get?"), ("result", ", what is the result?"), ("much", ", how much is that?")),
    ),
)
_FRAMES = {"noun": _NOUN, "task": _TASK, "verb": _VERB, "formula": (*_NOUN, _BARE)}
WORDS = [words for form in _FRAMES.values() for block in form for entries in block for _, words in entries]


def frames(form: str) -> Iterator[tuple[str, str, str]]:
    """Every frame of a form, as (id, words before, words after)."""
    for openers, endings in _FRAMES[form]:
        for opener, before in openers:
            for ending, after in endings:
                yield f"{opener}/{ending}".rstrip("/"), before, after


def sentence(before: str, words: str, after: str) -> str:
    """The wording inside its frame, with a capital letter."""
    whole = f"{before}{words}{after}"
    return whole[0].upper() + whole[1:]
