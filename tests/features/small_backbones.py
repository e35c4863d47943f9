"""Two small backbones of different families, and words and points to read from them."""

import functools

import torch
import transformers

from redlib import backbone, features
from redlib.features import Point

WORDS = ("What is", "Find", "Add", "plus", "the sum of", "7", "12", "and", "30?")
POINTS = [Point(layer, pooling) for layer in (0, 2, -1) for pooling in features.POOLINGS]


@functools.cache
def the_tiny():
    return backbone.load("tiny")


def small_llama():
    """A small random Llama: grouped heads, no head norms, scaled rotary frequencies."""
    tiny = backbone.load("tiny")
    size = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6}
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}
    config = transformers.LlamaConfig(
        vocab_size=len(tiny.tokenizer), num_key_value_heads=2, rope_parameters=rope, initializer_range=0.2, **size
    )
    config._attn_implementation = "sdpa"
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = transformers.LlamaModel(config).eval().requires_grad_(False)
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
    return backbone.Backbone(model, tiny.tokenizer, "llama", "llama", "none", top_layers=1)
