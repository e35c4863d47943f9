"""The modules behind the designs, from transformers' own classes, and the one way in which all of them are asked.

B texts, T tokens, V words, d width, n specialists.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from redlib.backbone import Backbone
from redlib.sparse.designs import HEADS, KV_HEADS, Design

BACKENDS = ("eager", "batched_mm", "grouped_mm")  # how transformers multiplies experts
MOMENTUM = 0.1  # of the running mean that the router of specialists subtracts


@lru_cache
def _state() -> str:
    """What this version of transformers calls the keys and values of earlier tokens."""
    known = inspect.signature(transformers.Qwen3ForCausalLM.forward).parameters
    return "cache" if "cache" in known else "past_key_values"


class Chosen(NamedTuple):
    """What an `Alchemist` keeps between tokens: the router's scores (B, n), the weights that are left of them, and each
    specialist's cache."""

    scores: Tensor
    weights: Tensor
    caches: list[Any]


class Alchemist(nn.Module):
    """Whole decoders as specialists, and a router that reads the mean embedding of the prompt (the serving document).

    Prompts have most words in common: the router reads how an embedding, normed, differs from the running mean of those
    that were trained on. Without this one specialist gets all texts, whatever the load-balance loss.
    The final states of the specialists are added with their weights and read by one head, tied to the embedding.
    Weights below `threshold` become zero, the largest never; a specialist of weight zero is not called for that text.
    """

    def __init__(self, design: Design):
        super().__init__()
        config = configuration(design)
        self.threshold = design.threshold
        self.config = config
        self.embed = nn.Embedding(design.vocabulary, design.width)
        self.router = nn.Linear(design.width, design.experts, bias=False)
        self.register_buffer("centre", torch.zeros(design.width))
        self.specialists = nn.ModuleList(transformers.Qwen3Model(config) for _ in range(design.experts))
        for module in (self.embed, self.router):
            nn.init.normal_(module.weight, std=config.initializer_range)
        for specialist in self.specialists:
            specialist.embed_tokens = None  # all read the shared one

    def scores(self, ids: Tensor, prompts: Tensor | None = None) -> Tensor:
        """The router's softmax (B, n) for ids (B, T), of which the first prompts (B,) tokens are read (None: all)."""
        embedded = self.embed(ids)
        if prompts is None:
            pooled = embedded.mean(1)
        else:
            mask = torch.arange(ids.shape[1], device=ids.device) < prompts[:, None]
            pooled = (embedded * mask[..., None]).sum(1) / prompts[:, None]
        normed = F.rms_norm(pooled, pooled.shape[-1:])
        if self.training:
            self.centre.lerp_(normed.detach().mean(0), MOMENTUM)
        return self.router(normed - self.centre).softmax(-1)

    def resting(self, scores: Tensor) -> Tensor:
        """The same (B, n) with weights under the threshold set to zero, the largest of a text excepted."""
        keep = scores >= self.threshold
        keep = keep.scatter(1, scores.argmax(1, keepdim=True), True)
        return scores * keep

    def forward(
        self, ids: Tensor, prompts: Tensor | None = None, state: Chosen | None = None, cache: bool = False
    ) -> tuple[Tensor, Chosen]:
        """Final states (B, T, d) and what continues the texts; with a state, ids are the next tokens."""
        scores = self.scores(ids, prompts) if state is None else state.scores
        weights = self.resting(scores) if state is None else state.weights
        embedded = self.embed(ids)
        mixed, caches = torch.zeros_like(embedded), []
        for i, specialist in enumerate(self.specialists):
            rows = weights[:, i].nonzero().squeeze(1)
            caches.append(None)
            if len(rows):
                given = {"use_cache": cache, _state(): None if state is None else state.caches[i]}
                done = specialist(inputs_embeds=embedded[rows], **given)
                caches[i] = getattr(done, _state())
                mixed = mixed.index_add(0, rows, weights[rows, i, None, None] * done.last_hidden_state)
        return mixed, Chosen(scores, weights, caches)

    def logits(self, states: Tensor) -> Tensor:
        """(.., V) of states (.., d)."""
        return F.linear(states, self.embed.weight)


def configuration(design: Design) -> Any:
    """The transformers configuration of a design, of one specialist for `specialists`."""
    shared = {
        "vocab_size": design.vocabulary,
        "hidden_size": design.width,
        "num_hidden_layers": design.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": design.head_dim,
        "intermediate_size": design.inner,
        "max_position_embeddings": design.context,
        "tie_word_embeddings": True,
    }
    if design.kind != "experts":
        return transformers.Qwen3Config(**shared)
    return transformers.Qwen3MoeConfig(
        **shared,
        moe_intermediate_size=design.inner,
        num_experts=design.experts,
        num_experts_per_tok=design.active,
        norm_topk_prob=design.active > 1,  # of one expert alone the weight would be 1, and the router learn nothing
    )


def build(design: Design, seed: int = 0, backend: str = "eager") -> nn.Module:
    """The untrained model of a design; ValueError for an unknown `backend` of its experts."""
    if backend not in BACKENDS:
        raise ValueError(f"unknown back end {backend!r} for experts; valid back ends: {', '.join(BACKENDS)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if design.kind == "specialists":
            return Alchemist(design).eval()
        model = transformers.AutoModelForCausalLM.from_config(configuration(design))
    if design.kind == "experts":
        model.set_experts_implementation(backend)
    return model.eval()


def pretrained(backbone: Backbone) -> nn.Module:
    """A backbone with its tied head, as the language model that it was."""
    decoder = backbone.model
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(decoder.config)
    model.model, model.lm_head.weight = decoder, decoder.embed_tokens.weight
    return model.eval()


def advance(model: nn.Module, ids: Tensor, state: Any = None, cache: bool = True) -> tuple[Tensor, Any]:
    """Logits (B, V) of the token after ids (B, T), and the state that continues them (None without a cache)."""
    if isinstance(model, Alchemist):
        states, kept = model(ids, state=state, cache=cache)
        return model.logits(states[:, -1]), kept if cache else None
    done = model(ids, **{_state(): state}, use_cache=cache, logits_to_keep=1)
    return done.logits[:, -1], getattr(done, _state()) if cache else None


def stored_bytes(model: nn.Module) -> int:
    """Bytes of all weights, shared ones once."""
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in model.state_dict().values()}
    return sum(held.values())


@contextmanager
def counted_runs(model: Alchemist) -> Iterator[list[int]]:
    """The texts that each specialist is called for inside: a list of n numbers that grows."""
    runs = [0] * len(model.specialists)

    def hook(i: int):
        def note(module, args, kwargs) -> None:
            runs[i] += len(kwargs["inputs_embeds"])

        return note

    handles = [s.register_forward_pre_hook(hook(i), with_kwargs=True) for i, s in enumerate(model.specialists)]
    try:
        yield runs
    finally:
        for handle in handles:
            handle.remove()
