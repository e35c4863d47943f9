"""The decomposer's decoding against plain `generate` of transformers: the same weights, prompts and number of tokens.

Ours keeps keys and values of texts of any length without padding, chooses among the few tokens of programs only, and
writes what the grammar forces in the same pass as the token before it. The writer that is compared is untrained: what
it writes is a valid program of nearly the greatest length. The shipped planner, whose programs are as long as they have
to be, is timed beside it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
import transformers

from redlib import backbone as backbones
from redlib import datasets, decomposer, modules, paths
from redlib.backbone import Backbone
from redlib.bench.measuring import Line, Taken, in_turns, rate, ratios, report, taken
from redlib.decomposer import Decoding, Planner

MAX_OPERATIONS = 4  # steps of the longest program of Task 2
LARGEST = 100
BATCHES = (1, 64, 256)
PEER: Decoding = "grammatical"  # greedy, as `generate` is; what is trained is searched
SHIPPED = "planner-structure/modules.safetensors"


def run(
    backbone: str = "smollm2-135m", rounds: int = 3, batches: Sequence[int] = BATCHES, write: bool = False
) -> pd.DataFrame:
    """Queries a second on texts of Task 2, B at a time: `<B> texts/ours` and `<B> texts/generate`, and with the shipped
    planner, where it is of this backbone, `<B> texts/trained`.

    `generate` is greedy and left-padded, and writes as many tokens as ours wrote for the longest of them. Metrics:
    `queries_per_second`, `tokens_per_query`, and of ours `over_generate`.
    """
    model = backbones.load(backbone)
    planner, peer, known = untrained(model), causal(model), trained(model)
    texts = datasets.build("task2", 1_000, 0)["text"].tolist()
    lines: list[Line] = []
    for count in batches:
        some = texts[:: len(texts) // count][:count]
        tokens = written(planner, some, PEER)
        cases = _cases(planner, peer, some, max(tokens))
        if known:
            cases["trained"] = lambda some=some: taken(len(some), lambda: known.decompose_all(some))
            lines += [(f"{count} texts/trained", "tokens_per_query", float(np.mean(written(known, some))), "tokens")]
        turns = in_turns(cases, rounds, f"queries/s, {count} at a time")
        lines += [(f"{count} texts/{way}", "queries_per_second", rate(done), "1/s") for way, done in turns.items()]
        lines += [(f"{count} texts/ours", "tokens_per_query", float(np.mean(tokens)), "tokens")]
        lines += [(f"{count} texts/generate", "tokens_per_query", max(tokens), "tokens")]
        lines += ratios(f"{count} texts/ours", "over_generate", turns["ours"], turns["generate"])
    return report("decode", lines, write)


def _cases(
    planner: Planner, peer: transformers.PreTrainedModel, texts: Sequence[str], tokens: int
) -> dict[str, Callable[[], Taken]]:
    return {
        "ours": lambda: taken(len(texts), lambda: planner.decompose_all(texts, PEER)),
        "generate": lambda: taken(len(texts), lambda: generate(peer, planner.backbone, texts, tokens)),
    }


def untrained(model: Backbone) -> Planner:
    """A planner on a backbone whose writer starts as the backbone itself."""
    passport = {"weights_id": model.weights_id, "backbone": model.display, "top_layers": model.layers - model.boundary}
    passport |= {"max_operations": MAX_OPERATIONS, "largest": LARGEST, "split": "none", "seed": 0}
    planner = decomposer.new(model, passport)
    planner.writer.eval().requires_grad_(False)
    return planner


def trained(model: Backbone) -> Planner | None:
    """The shipped planner, where it is there and of this backbone."""
    file = paths.modules() / SHIPPED
    if not file.is_file() or modules.read_passport(file)["weights_id"] != model.weights_id:
        return None
    return decomposer.load(file, model)


def written(planner: Planner, texts: Sequence[str], decoding: Decoding = "searched") -> list[int]:
    """Tokens that the planner writes for each text, with its end token."""
    plans, bone = planner.decompose_all(texts, decoding), planner.backbone
    return [len(ids) + 1 for ids in bone.encode([plan.written for plan in plans])]


def causal(model: Backbone) -> transformers.PreTrainedModel:
    """transformers' own model for `generate`, with the backbone's weights and its embeddings as readout."""
    peer = transformers.AutoModelForCausalLM.from_config(model.model.config, dtype=model.dtype)
    peer.model = model.model
    peer.lm_head.weight = model.model.embed_tokens.weight
    return peer.to(model.device).eval()


@torch.no_grad()
def generate(peer: transformers.PreTrainedModel, model: Backbone, texts: Sequence[str], tokens: int) -> torch.Tensor:
    """What a reader of the transformers documentation writes: ids (B, T + tokens)."""
    ids = model.encode(decomposer.prompts(model, texts))
    inputs = model.tokenizer.pad({"input_ids": ids}, padding_side="left", return_tensors="pt").to(model.device)
    return peer.generate(**inputs, do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens)
