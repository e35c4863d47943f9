"""From a text to a program: the trained planner, and a symbolic one to compare it with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from redlib import modules, phrasing
from redlib.backbone import Backbone
from redlib.backbone.layers import Tokens
from redlib.decomposer import errors, queries
from redlib.decomposer.decoding import Written, greedy, search
from redlib.decomposer.grammar import Grammar
from redlib.decomposer.sequences import prompts
from redlib.decomposer.writer import Writer
from redlib.programs import Program

PART = "decomposer"  # its name in a module file
EARLY = "redlib-planner/1"  # of files that were written before planners were modules: they can still be read
Decoding = Literal["searched", "grounded", "grammatical", "unrestricted"]
DECODINGS: tuple[Decoding, ...] = get_args(Decoding)
REQUIRED = ("weights_id", "backbone", "top_layers", "max_operations", "largest", "split", "seed")


@dataclass(frozen=True)
class Plan:
    """What a planner wrote for a text, and the probability of each of its lines: a step a line, then the answer.

    Those of a `Planner` are its writer's own, among all program tokens, whatever decoding allowed. `program` is None
    where the text is no program, which only unrestricted decoding can write.
    """

    text: str
    written: str
    probabilities: tuple[float, ...]

    @property
    def program(self) -> Program | None:
        """What is written, read; None where that is no program."""
        return errors.read(self.written)

    @property
    def probability(self) -> float:
        """Of the whole program."""
        return float(np.prod(self.probabilities))


@dataclass(frozen=True, eq=False)
class Planner:
    """A trained writer on its backbone; `passport` says what it was trained on."""

    backbone: Backbone
    grammar: Grammar
    writer: Writer
    passport: dict[str, Any]

    def decompose(self, text: str, decoding: Decoding = "searched") -> Plan:
        """The program of a text. The ways of decoding, from the closest to the freest:

        `searched`: the most probable program as a whole of those that read every number of the text once, and every
        result but the last one once; `grounded`: one of those, the most probable token each time; `grammatical`: any
        program, the most probable token each time; `unrestricted`: any program tokens. Raises ValueError with one
        sentence for a text that no program answers (`queries.check`) and for an unknown way of decoding.
        """
        return self.decompose_all([text], decoding)[0]

    def decompose_all(self, texts: Sequence[str], decoding: Decoding = "searched") -> list[Plan]:
        """`decompose` for N texts in one batch."""
        for text in texts:
            queries.check(text, self.grammar.max_operations, self.grammar.largest)
        ids = self.backbone.encode(prompts(self.backbone, texts))
        write = search if decoding == "searched" else greedy
        written = write(self.backbone, self.writer, self.grammar, ids, self.kept(texts, decoding))
        return [self.plan(text, one) for text, one in zip(texts, written, strict=True)]

    def kept(self, texts: Sequence[str], decoding: Decoding) -> list[Grammar] | None:
        """The grammars (N,) that a way of decoding keeps the programs of N texts to; None: to nothing."""
        if decoding not in DECODINGS:
            raise ValueError(f"there is no decoding {decoding!r}; valid ways: {', '.join(DECODINGS)}")
        if decoding == "unrestricted":
            return None
        if decoding == "grammatical":
            return [self.grammar] * len(texts)
        return [self.grammar.grounded(phrasing.numbers(text)) for text in texts]

    def plan(self, text: str, written: Written) -> Plan:
        """Written tokens as a plan."""
        said = self.grammar.text(self.backbone, written.tokens)
        return Plan(text, said, line_probabilities(self.grammar, written))

    def save(self, path: Path, texts: Sequence[str] = (), half: bool = False) -> None:
        """Write the writer as a module file, with the planner's passport (ValueError for one that lacks a field).

        texts: with their programs behind them (`spelled`), for the probe batch; half: keep the weights in bfloat16.
        """
        config = {name: self.passport[name] for name in ("top_layers", "max_operations", "largest")}
        part, about = modules.State(self.writer.state_dict(), config), self.passport
        place = (about["layer"], about["pooling"], about["top_layers"])
        probe = modules.Probe.of(self.backbone, texts, *place) if texts else None
        answer = partial(_answer, self.backbone, self.grammar)
        modules.save(path, {PART: part}, about, probe=probe, half=(PART,) if half else (), answer=answer)


def _answer(backbone: Backbone, grammar: Grammar, parts: Mapping[str, nn.Module]) -> modules.Answer:
    """The logits (n, V) after every token of the probe's texts."""
    writer = _filled(backbone, grammar, parts)

    def answer(read: tuple[Tensor, Tensor]) -> Tensor:
        states, mask = (t.to(backbone.device) for t in read)
        return writer.say(states[mask], Tokens(*mask.nonzero(as_tuple=True), len(mask))).cpu()

    return answer


def _filled(backbone: Backbone, grammar: Grammar, parts: Mapping[str, nn.Module]) -> Writer:
    writer = Writer.of(backbone, grammar)
    writer.load_state_dict(parts[PART].tensors)
    return writer.eval().requires_grad_(False)


def load(path: Path, backbone: Backbone) -> Planner:
    """A saved planner on its backbone; what `modules.load` refuses, it refuses.

    Raises FileNotFoundError where there is no file, ValueError for a file that holds no planner and for another
    backbone, or another boundary, than it was trained on.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no planner {path.name!r} in {path.parent}")
    early = _early(path)
    passport = early[1] if early else modules.read_passport(path)
    if "top_layers" not in passport:
        raise ValueError(f"{path.name!r} holds no planner but {passport['kind']}")
    if (passport["weights_id"], passport["top_layers"]) != (backbone.weights_id, backbone.layers - backbone.boundary):
        raise ValueError(
            f"the planner was trained on {passport['backbone']} (weights {passport['weights_id'][:12]}, top "
            f"{passport['top_layers']} layers), but the backbone given is {backbone.display} (weights "
            f"{backbone.weights_id[:12]}, top {backbone.layers - backbone.boundary} layers)"
        )
    planner = new(backbone, passport)
    answer = partial(_answer, backbone, planner.grammar)
    parts = early[0] if early else modules.load(path, backbone, answer)[0]
    return Planner(backbone, planner.grammar, _filled(backbone, planner.grammar, parts), passport)


def _early(path: Path) -> tuple[dict[str, modules.State], dict[str, Any]] | None:
    """Parts and passport of an early file; None for any other."""
    try:
        with safe_open(path, "pt") as file:
            passport = json.loads((file.metadata() or {}).get("passport", "{}"))
            if passport.get("format") != EARLY:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError):  # `modules` says what is wrong with it
        return None
    return {PART: modules.State(tensors, {})}, passport


def new(backbone: Backbone, passport: dict[str, Any]) -> Planner:
    """An untrained planner; ValueError for a passport that lacks one of `REQUIRED`."""
    missing = [name for name in REQUIRED if name not in passport]
    if missing:
        raise ValueError(f"a planner's passport needs {', '.join(REQUIRED)}; missing: {', '.join(missing)}")
    grammar = Grammar.of(backbone, passport["max_operations"], passport["largest"])
    return Planner(backbone, grammar, Writer.of(backbone, grammar), passport)


@dataclass(frozen=True)
class Symbolic:
    """The reference planner: the parser of the phrasings reads a text, and its steps are certain."""

    max_operations: int
    largest: int

    def decompose(self, text: str) -> Plan:
        """The program of the expression that the text states; ValueError as from `Planner` and from the parser."""
        queries.check(text, self.max_operations, self.largest)
        program = Program.from_expression(phrasing.parse(text))
        return Plan(text, program.text, (1.0,) * (len(program.steps) + 1))

    def decompose_all(self, texts: Sequence[str]) -> list[Plan]:
        """`decompose` for N texts."""
        return [self.decompose(text) for text in texts]


def line_probabilities(grammar: Grammar, written: Written) -> tuple[float, ...]:
    """The probability of each line of what was written: the product over its tokens."""
    tokens, logs = np.array(written.tokens), np.array(written.logs)
    line = np.cumsum(tokens == grammar.newline) - (tokens == grammar.newline)  # a newline ends its own line
    return tuple(np.exp(np.bincount(line, logs)).tolist())
