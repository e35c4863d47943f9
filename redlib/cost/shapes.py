"""The shape of a backbone: its size and the FLOPs of a pass in closed form, and itself without weights."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers

from redlib.backbone import Backbone

SHAPES = ("smollm2-135m", "qwen3-0.6b")  # written down below: no network and no file is needed


def configuration(name: str) -> Any:
    """The transformers configuration of a backbone of SHAPES; ValueError for another name."""
    if name == "smollm2-135m":
        return transformers.LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            tie_word_embeddings=True,
        )
    if name == "qwen3-0.6b":
        return transformers.Qwen3Config(
            vocab_size=151936,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            tie_word_embeddings=True,
        )
    raise ValueError(f"no shape of a backbone {name!r} is written down; valid names: {', '.join(SHAPES)}")


@dataclass(frozen=True)
class Shape:
    """What the closed forms of a Llama- or Qwen-style decoder need; its head for words is tied or not used."""

    layers: int
    d: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    head_norms: bool = False  # queries and keys are normed head by head (Qwen3)
    biases: int = 0  # numbers in the biases of one layer

    @classmethod
    def of(cls, config: Any) -> "Shape":
        """The shape that a transformers configuration describes."""
        d, heads, kv_heads = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        head_dim = getattr(config, "head_dim", None) or d // heads
        queries = (heads + 2 * kv_heads) * head_dim
        biases = queries + d if getattr(config, "attention_bias", False) else 0
        biases += 2 * config.intermediate_size + d if getattr(config, "mlp_bias", False) else 0
        biases += queries if config.model_type == "qwen2" else 0
        inner = (heads, kv_heads, head_dim, config.intermediate_size, config.vocab_size)
        return cls(config.num_hidden_layers, d, *inner, config.model_type.startswith("qwen3"), biases)

    @property
    def products(self) -> int:
        """Weights of one layer that a token is multiplied with: attention and feed-forward."""
        attention = 2 * self.d * (self.heads + self.kv_heads) * self.head_dim
        return attention + 3 * self.d * self.intermediate

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        norms = 2 * self.d + (2 * self.head_dim if self.head_norms else 0)
        return self.products + norms + self.biases

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters by part: embeddings, layers, norm."""
        return {"embeddings": self.vocabulary * self.d, "layers": self.layers * self.layer_parameters, "norm": self.d}

    def flops(self, tokens: int, batch: int = 1, layers: int | None = None) -> int:
        """FLOPs of a pass of `batch` texts of `tokens` tokens through the first `layers` (default: all).

        Every score of every pair of tokens is computed, as common kernels do; a causal pass needs half of those.
        """
        depth = self.layers if layers is None else layers
        scores = 4 * self.heads * self.head_dim * tokens**2
        return batch * depth * (2 * tokens * self.products + scores)


def skeleton(config: Any, top_layers: int = 2) -> Backbone:
    """The backbone of a configuration on the meta device: real modules with real shapes, and not one number in them."""
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config, attn_implementation="eager")
    model = model.eval().requires_grad_(False)
    return Backbone(model, None, config.model_type, config.model_type, "none", top_layers, evidence=False)
