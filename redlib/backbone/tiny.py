"""A random decoder of 4 layers with a digit-level tokenizer, both made in code: proves machinery, never evidence."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from redlib import paths
from redlib.backbone import identity

PAD = "<|pad|>"
WORDS = (
    "add added and answer away by calculate compute decreased do equals find from get give how if increased is "
    "less me minus more much number numbers of please plus result subtract subtracted sum take tell than the then "
    "to total up value we what you "
)


def build() -> tuple[Any, Any, str]:
    """(decoder, tokenizer, weights_id) of a small Qwen3 model with fixed random weights."""
    tokenizer = _tokenizer()
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=1024,
        initializer_range=0.2,  # wider than a trained model's start, so that layers visibly change the states
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.Qwen3Model(config)
    tensors = [(name, "F32", list(t.shape), t.numpy().tobytes()) for name, t in sorted(model.state_dict().items())]
    return model, tokenizer, identity.weights_id(tensors, tokenizer, config)


def weights_id() -> str:
    """Its identity; noted in the cache when it is first asked for, since building takes seconds of imports."""
    made_by = [
        torch.__version__,
        transformers.__version__,
        Path(__file__).read_text(),
        Path(identity.__file__).read_text(),
    ]
    folder = paths.cache() / "backbones" / f"tiny-{paths.digest(made_by)[:8]}"
    note = folder / "meta.json"
    if not note.is_file():
        paths.write_json(note, {"weights_id": build()[2]})
    return json.loads(note.read_text())["weights_id"]


def _tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One token a digit, known words whole (with and without a space before them), everything else byte by byte."""
    pieces = [PAD, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    pieces += [prefix + word for word in WORDS.split() for prefix in ("", "Ġ")] + [
        word.capitalize() for word in WORDS.split()
    ]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    backend = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=PAD, eos_token=PAD)
